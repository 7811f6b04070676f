"""The part of DuckDB's stable C API that the bridge uses, as typed ctypes functions.

The duckdb wheel exports the C API from its own extension module, so nothing else has to be installed. Handles are
plain `c_void_p`; every function that creates one names the function that destroys it.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import _duckdb

Handle = C.c_void_p
HandlePointer = C.POINTER(C.c_void_p)
_library = C.CDLL(_duckdb.__file__)


class Result(C.Structure):
    """`duckdb_result`: passed by value to the fetch functions."""

    _fields_ = [(name, C.c_uint64) for name in ("columns", "rows", "changed")] + [
        (name, C.c_void_p) for name in ("deprecated_columns", "message", "internal")
    ]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(_library, f"duckdb_{name}")
    function.restype, function.argtypes = result, list(arguments)
    return function


SUCCESS = 0
BIND_CALLBACK = C.CFUNCTYPE(None, C.c_void_p)
INIT_CALLBACK = C.CFUNCTYPE(None, C.c_void_p)
MAIN_CALLBACK = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p)
DELETE_CALLBACK = C.CFUNCTYPE(None, C.c_void_p)
LOAD_CALLBACK = C.CFUNCTYPE(C.c_int, C.c_void_p)

# the same as decorators: what they return must be kept as long as DuckDB may call it
bind_callback: Callable[[Callable[[int], None]], Any] = BIND_CALLBACK
init_callback: Callable[[Callable[[int], None]], Any] = INIT_CALLBACK
main_callback: Callable[[Callable[[int, int], None]], Any] = MAIN_CALLBACK
delete_callback: Callable[[Callable[[int], None]], Any] = DELETE_CALLBACK
load_callback: Callable[[Callable[[int], int]], Any] = LOAD_CALLBACK

# connections
connect = _function("connect", C.c_int, Handle, HandlePointer)
disconnect = _function("disconnect", None, HandlePointer)
interrupt = _function("interrupt", None, Handle)

# statements and results
query = _function("query", C.c_int, Handle, C.c_char_p, C.POINTER(Result))
prepare = _function("prepare", C.c_int, Handle, C.c_char_p, HandlePointer)
prepare_error = _function("prepare_error", C.c_char_p, Handle)
destroy_prepare = _function("destroy_prepare", None, HandlePointer)
prepared_column_count = _function("prepared_statement_column_count", C.c_uint64, Handle)
prepared_column_name = _function("prepared_statement_column_name", C.c_void_p, Handle, C.c_uint64)
prepared_column_type = _function("prepared_statement_column_logical_type", Handle, Handle, C.c_uint64)
parameter_count = _function("nparams", C.c_uint64, Handle)
parameter_type = _function("param_type", C.c_int, Handle, C.c_uint64)
execute_prepared = _function("execute_prepared", C.c_int, Handle, C.POINTER(Result))
execute_streaming = _function("execute_prepared_streaming", C.c_int, Handle, C.POINTER(Result))
result_error = _function("result_error", C.c_char_p, C.POINTER(Result))
fetch_chunk = _function("fetch_chunk", Handle, Result)
destroy_result = _function("destroy_result", None, C.POINTER(Result))

# chunks and vectors
chunk_vector = _function("data_chunk_get_vector", Handle, Handle, C.c_uint64)
chunk_size = _function("data_chunk_get_size", C.c_uint64, Handle)
chunk_set_size = _function("data_chunk_set_size", None, Handle, C.c_uint64)
destroy_chunk = _function("destroy_data_chunk", None, HandlePointer)
vector_reference = _function("vector_reference_vector", None, Handle, Handle)

# logical types and values
create_type = _function("create_logical_type", Handle, C.c_int)
create_list_type = _function("create_list_type", Handle, Handle)
destroy_type = _function("destroy_logical_type", None, HandlePointer)
type_id = _function("get_type_id", C.c_int, Handle)
type_alias = _function("logical_type_get_alias", C.c_void_p, Handle)
decimal_width = _function("decimal_width", C.c_uint8, Handle)
decimal_scale = _function("decimal_scale", C.c_uint8, Handle)
enum_size = _function("enum_dictionary_size", C.c_uint32, Handle)
enum_value = _function("enum_dictionary_value", C.c_void_p, Handle, C.c_uint64)
array_size = _function("array_type_array_size", C.c_uint64, Handle)
_array_child = _function("array_type_child_type", Handle, Handle)
_list_child = _function("list_type_child_type", Handle, Handle)
_map_key = _function("map_type_key_type", Handle, Handle)
_map_value = _function("map_type_value_type", Handle, Handle)
_struct_count = _function("struct_type_child_count", C.c_uint64, Handle)
_struct_name = _function("struct_type_child_name", C.c_void_p, Handle, C.c_uint64)
_struct_child = _function("struct_type_child_type", Handle, Handle, C.c_uint64)
_union_count = _function("union_type_member_count", C.c_uint64, Handle)
_union_name = _function("union_type_member_name", C.c_void_p, Handle, C.c_uint64)
_union_child = _function("union_type_member_type", Handle, Handle, C.c_uint64)
value_type = _function("get_value_type", Handle, Handle)  # owned by the value
is_null = _function("is_null_value", C.c_bool, Handle)
destroy_value = _function("destroy_value", None, HandlePointer)
get_bool = _function("get_bool", C.c_bool, Handle)
get_int64 = _function("get_int64", C.c_int64, Handle)
get_double = _function("get_double", C.c_double, Handle)
get_varchar = _function("get_varchar", C.c_void_p, Handle)  # freed with free()
list_size = _function("get_list_size", C.c_uint64, Handle)
list_child = _function("get_list_child", Handle, Handle, C.c_uint64)
map_size = _function("get_map_size", C.c_uint64, Handle)
map_key = _function("get_map_key", Handle, Handle, C.c_uint64)
map_value = _function("get_map_value", Handle, Handle, C.c_uint64)
struct_value = _function("get_struct_child", Handle, Handle, C.c_uint64)
free = _function("free", None, C.c_void_p)

# table functions
create_table_function = _function("create_table_function", Handle)
destroy_table_function = _function("destroy_table_function", None, HandlePointer)
set_name = _function("table_function_set_name", None, Handle, C.c_char_p)
add_parameter = _function("table_function_add_parameter", None, Handle, Handle)
add_named_parameter = _function("table_function_add_named_parameter", None, Handle, C.c_char_p, Handle)
set_extra_info = _function("table_function_set_extra_info", None, Handle, C.c_void_p, C.c_void_p)
set_bind = _function("table_function_set_bind", None, Handle, BIND_CALLBACK)
set_init = _function("table_function_set_init", None, Handle, INIT_CALLBACK)
set_main = _function("table_function_set_function", None, Handle, MAIN_CALLBACK)
set_projection_pushdown = _function("table_function_supports_projection_pushdown", None, Handle, C.c_bool)
register_table_function = _function("register_table_function", C.c_int, Handle, Handle)

bind_extra_info = _function("bind_get_extra_info", C.c_void_p, Handle)
bind_parameter = _function("bind_get_parameter", Handle, Handle, C.c_uint64)
bind_named_parameter = _function("bind_get_named_parameter", Handle, Handle, C.c_char_p)
bind_add_column = _function("bind_add_result_column", None, Handle, C.c_char_p, Handle)
bind_set_data = _function("bind_set_bind_data", None, Handle, C.c_void_p, DELETE_CALLBACK)
bind_set_cardinality = _function("bind_set_cardinality", None, Handle, C.c_uint64, C.c_bool)
bind_set_error = _function("bind_set_error", None, Handle, C.c_char_p)
bind_client_context = _function("table_function_get_client_context", None, Handle, HandlePointer)
context_option = _function("client_context_get_config_option", Handle, Handle, C.c_char_p, C.POINTER(C.c_int))
context_connection = _function("client_context_get_connection_id", C.c_uint64, Handle)
destroy_context = _function("destroy_client_context", None, HandlePointer)

init_bind_data = _function("init_get_bind_data", C.c_void_p, Handle)
init_column_count = _function("init_get_column_count", C.c_uint64, Handle)
init_column_index = _function("init_get_column_index", C.c_uint64, Handle, C.c_uint64)
init_set_data = _function("init_set_init_data", None, Handle, C.c_void_p, DELETE_CALLBACK)
init_set_max_threads = _function("init_set_max_threads", None, Handle, C.c_uint64)
init_set_error = _function("init_set_error", None, Handle, C.c_char_p)
main_init_data = _function("function_get_init_data", C.c_void_p, Handle)
main_set_error = _function("function_set_error", None, Handle, C.c_char_p)

_TYPE_IDS = {"BOOLEAN": 1, "BIGINT": 5, "DOUBLE": 11, "VARCHAR": 17, "ANY": 34, "STRUCT": 34}
_INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 8})  # TINYINT … BIGINT, UTINYINT … UINTEGER
TYPE_DECIMAL, TYPE_ENUM = 19, 23
_TYPE_BOOLEAN, _TYPE_FLOAT, _TYPE_DOUBLE, _TYPE_LIST = 1, 10, 11, 24
_TYPE_STRUCT, _TYPE_MAP, _TYPE_UNION, _TYPE_ARRAY = 25, 26, 28, 33
_BIG_INTEGERS = frozenset({9, 16, 32, 35})  # UBIGINT, HUGEINT, UHUGEINT, BIGNUM


@contextmanager
def logical_type(name: str) -> Iterator[C.c_void_p]:
    """The logical type of a parameter, see `dpsql.udfs.bridge.declare.Parameter`; those of a STRUCT's members vary."""
    handle = C.c_void_p(create_type(_TYPE_IDS[name.removesuffix("[]")]))
    if name.endswith("[]"):
        child, handle = handle, C.c_void_p(create_list_type(handle))
        destroy_type(C.byref(child))
    try:
        yield handle
    finally:
        destroy_type(C.byref(handle))


def type_children(handle: C.c_void_p) -> Iterator[tuple[str, C.c_void_p]]:
    """Label and logical type of what a nested type is made of; each type is destroyed after it was yielded."""
    kind = type_id(handle)
    if kind == _TYPE_LIST:
        children = [("list", _list_child(handle))]
    elif kind == _TYPE_ARRAY:
        children = [(f"array{array_size(handle)}", _array_child(handle))]
    elif kind == _TYPE_MAP:
        children = [("key", _map_key(handle)), ("value", _map_value(handle))]
    elif kind == _TYPE_STRUCT:
        count = range(_struct_count(handle))
        children = [(take_text(_struct_name(handle, i)), _struct_child(handle, i)) for i in count]
    elif kind == _TYPE_UNION:
        count = range(_union_count(handle))
        children = [(take_text(_union_name(handle, i)), _union_child(handle, i)) for i in count]
    else:
        children = []
    for label, pointer in children:
        child = C.c_void_p(pointer)
        try:
            yield label, child
        finally:
            destroy_type(C.byref(child))


def take_text(pointer: int | None) -> str:
    """Copy a C string that DuckDB allocated, and free it."""
    if not pointer:
        return ""
    try:
        return C.string_at(pointer).decode()
    finally:
        free(pointer)


def take_value(handle: int | None, *, names: bool = False) -> Any:
    """Convert a `duckdb_value` to Python and destroy it.

    NULL, booleans, integers, floats, decimals and lists come as Python's own; every other type as its SQL text.

    Args:
        handle: the value.
        names: a STRUCT or a MAP comes as a dictionary, too.
    """
    value = C.c_void_p(handle)
    try:
        if not handle or is_null(value):
            return None
        kind = type_id(value_type(value))
        if kind == _TYPE_BOOLEAN:
            return bool(get_bool(value))
        if kind in _INTEGERS:
            return int(get_int64(value))
        if kind in (_TYPE_FLOAT, _TYPE_DOUBLE):
            return float(get_double(value))
        if kind == _TYPE_LIST:
            return [take_value(list_child(value, index)) for index in range(list_size(value))]
        if names and kind == _TYPE_STRUCT:
            members = [label for label, _ in type_children(C.c_void_p(value_type(value)))]
            return {label: take_value(struct_value(value, index)) for index, label in enumerate(members)}
        if names and kind == _TYPE_MAP:
            entries = range(map_size(value))
            return {take_value(map_key(value, index)): take_value(map_value(value, index)) for index in entries}
        text = take_text(get_varchar(value))
        if kind in _BIG_INTEGERS:
            return int(text)
        return Decimal(text) if kind == TYPE_DECIMAL else text
    finally:
        destroy_value(C.byref(value))
