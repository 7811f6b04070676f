"""What somebody found out about each function of DuckDB: who may call it follows from that.

Each name stands once, beside its traits. Whoever lets people call functions says which traits he takes; a name with
another trait is refused, and so is a name that is not here, because nobody has looked at it. A test compares the names
with the catalogue of each DuckDB in `dpsql.engines.duckdb.versions`: a new function is put into a group here, and
nowhere else. Who asks:

    dpsql.service.allowed            what users of the service may call
    dpsql.books.reading.reads                what a view may call that is read as public
    dpsql.api.statement_values       what a statement may call too whose table is then public
    dpsql.evaluation.sandbox         what people's expressions may call, in an empty database, and what is said there
                                     around the answers of a query
    dpsql.language.size_bounds       what they may not, because of the size of its result
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import Final, NamedTuple


class Trait(Flag):
    """What is to be known of a function before somebody may call it, beside that its arguments decide its value."""

    PURE = 0  # nothing: its value depends on its arguments alone
    UNTRIED_IN_VIEWS = auto()  # nobody tried it where DuckDB may compute it beside private rows, while it binds a view
    UNTRIED_IN_EXPRESSIONS = auto()  # nobody tried it in people's expressions, or they cannot have its types
    AGGREGATE = auto()  # over rows, or over a window
    GATHERS = auto()  # of the values of all rows, or of any number of them, it makes a list, a map or a text
    ORDER = auto()  # what it shows depends on the order in which rows come, which nobody says
    OPERATOR = auto()  # a sign, or words between values
    SYNTAX = auto()  # a plan names so what the parser makes: DuckDB's catalogue does not list it
    GIVEN = auto()  # calls a function that is given to it, or makes states and lists that others read
    ROWS = auto()  # makes any number of rows, or a list of any length
    WIDTH = auto()  # makes a text of any length, which stands in the call: allowed where that was read, and is short
    LENGTH = auto()  # makes a text or a list of any length from short arguments
    SQUARE = auto()  # takes a time that grows with the square of a text's length, and notices no interrupt in it
    PAIRS = (
        auto()
    )  # goes through two values at once, by levels: deep ones may end the process, or take a square of time
    LEVELS = auto()  # calls itself for each level of a value: DuckDB 1.5.5 to 2.0.1 end the process at 49,000 brackets
    MEMBERS = auto()  # reads the members of an ENUM type, which may have been made from private rows
    CODES = auto()  # tells the place of an ENUM value among the members
    ZONE = auto()  # reads the session's time zone
    CLOCK = auto()  # reads the clock, though DuckDB's catalogue may not say so
    CHANCE = auto()  # draws at random
    SEQUENCE = auto()  # takes the next number, or reads the last one
    SQL = auto()  # reads a text as SQL, or as the name of a table
    FILE_ROWS = auto()  # reads a file's rows
    FILES = auto()  # reads files in another way, the network, or objects of the process
    SESSION = auto()  # tells of the session, the settings, the machine, or what else is in the instance
    CHANGES = auto()  # changes the instance or what is stored
    WAITS = auto()  # does nothing, for a time
    INTERNAL = auto()  # is DuckDB's own, or shows how it stores values


T: Final = Trait
_FOR_READERS: Final = T.UNTRIED_IN_VIEWS | T.UNTRIED_IN_EXPRESSIONS


class Function(NamedTuple):
    """A function of DuckDB.

    Attributes:
        traits: what somebody found out.
        since: the first version that has it, as numbers.
        before: the first version that has it no more; empty if there is none.
    """

    traits: Trait
    since: tuple[int, ...]
    before: tuple[int, ...]


def _listed(groups: Mapping[Trait, str]) -> dict[str, Function]:
    """The functions of groups: `name`, `name:2` of DuckDB 2 and later, `name:<2` of those before it; ␣ is a space."""
    functions = dict[str, Function]()
    for traits, names in groups.items():
        for word in names.split():
            name, _, versions = word.partition(":")
            number = tuple(map(int, versions.lstrip("<").split("."))) if versions else ()
            if name in functions:
                raise ValueError(f"{name!r} stands in two groups")
            is_gone = versions.startswith("<")
            functions[name.replace("␣", " ")] = Function(traits, *(((), number) if is_gone else (number, ())))
    return functions


_LOCALES: Final = """
    aa:2 af am ar ar_sa as az bal:2 be bg blo:2 bn bo br bs ca ceb chr cs cu:2 cy da de de_at dsb dz ee el en en_us eo
    es et fa fa_af ff fi fil fo fr fr_ca fy ga gl gu ha haw he he_il hi hr hsb hu hy id id_id ig is it ja ka kk kl km
    kn ko kok ku ky lb lij lkt ln lo lt lv mk ml mn mr ms mt my nb nb_no ne nl nn no:2 noaccent nso om or pa pa_in pl
    ps pt ro ru sa se sgs:2 si sk sl smn sq sr sr_ba sr_me sr_rs ssy:2 st sv sw ta te th tk tn to tr ug uk ur uz vi
    vo:2 wae wo xh yi yo yue:<2 yue_cn:<2 zh zh_cn zh_hk zh_mo zh_sg zh_tw zu
"""
_COLLATIONS: Final = " ".join(
    f"icu_collate_{locale}" if "<" in locale else f"icu_collate_{locale} collate_{locale.partition(':')[0]}:2"
    for locale in _LOCALES.split()
)
VALUES: Final = _listed(
    {
        T.PURE: """
        abs acos acosh add array_append array_concat array_contains array_distinct array_extract array_has array_length
        array_position array_prepend array_reverse array_slice array_sort array_to_json array_value ascii asin asinh
        atan atan2 atanh base64 bin bit_count bit_length cardinality cbrt ceil ceiling century char_length
        character_length chr concat concat_ws contains cos cosh cot date_add date_diff date_part date_sub date_trunc
        datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade decode degrees divide
        element_at encode ends_with epoch epoch_ms epoch_ns epoch_us era even exp factorial fdiv flatten
        floor fmod format_bytes from_base64 from_binary from_hex gamma gcd geomean get_bit greatest
        greatest_common_divisor hamming hex hour ilike_escape instr isfinite isinf isnan isodow isoyear jaccard
        json_array json_array_length json_exists json_extract json_extract_path json_extract_path_text
        json_extract_string json_keys json_object json_quote json_structure json_type json_valid json_value julian
        last_day lcase lcm least least_common_multiple left left_grapheme len length length_grapheme lgamma like_escape
        list_any_value list_append list_avg list_cat list_concat list_contains list_count list_distinct list_element
        list_extract list_has list_has_all list_has_any list_indexof list_intersect list_max list_min list_pack
        list_position list_prepend list_reverse list_reverse_sort list_select list_slice list_sort list_sum list_unique
        list_value list_where ln log log10 log2 lower ltrim make_date make_time make_timestamp make_timestamp_ms
        make_timestamp_ns map map_concat map_contains map_entries map_extract map_extract_value map_from_entries
        map_keys map_values md5 md5_number microsecond millennium millisecond minute mismatches mod month monthname
        multiply nanosecond nextafter not_ilike_escape not_like_escape nullif octet_length ord pi position pow power
        prefix quarter radians regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
        regexp_replace regexp_split_to_array replace reverse right right_grapheme round round_even roundbankers row
        row_to_json rtrim second set_bit sha1 sha256 sign signbit sin sinh split split_part sqrt starts_with str_split
        str_split_regex strftime string_split string_split_regex string_to_array strip_accents strlen strpos strptime
        struct_concat struct_contains struct_extract struct_extract_at struct_insert struct_pack struct_position
        struct_update substr substring substring_grapheme subtract suffix tan tanh time_bucket to_base to_base64
        to_binary to_centuries to_days to_decades to_hex to_hours to_json to_microseconds to_millennia to_milliseconds
        to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years translate trim trunc try_strptime
        ucase unbin unhex unicode upper url_decode url_encode wavg week weekday weekofyear weighted_avg xor year
        yearweek
    """,
        T.UNTRIED_IN_VIEWS: """
        array_cat array_cosine_distance array_cosine_similarity array_cross_product array_distance array_dot_product
        array_grade_up array_has_all array_has_any array_indexof array_inner_product array_intersect
        array_negative_dot_product array_negative_inner_product array_reverse_sort array_select array_unique array_where
        binom:2 bit_position formatreadabledecimalsize formatreadablesize grade_up json_insert:2 json_remove:2
        json_replace:2 json_set:2 list_cosine_distance list_cosine_similarity list_distance list_dot_product
        list_grade_up list_inner_product list_negative_dot_product list_negative_inner_product normalized_interval
        overlay:2 parse_dirname parse_dirpath parse_filename parse_formatted_bytes parse_path path_join:2 struct_has
        struct_indexof struct_keys struct_values uuid_extract_timestamp uuid_extract_version
    """,
        T.UNTRIED_IN_EXPRESSIONS: "constant_or_null error union_extract union_tag union_value",
        _FOR_READERS: _COLLATIONS
        + """
        alias array_pop_back array_pop_front array_push_back array_push_front array_to_string
        array_to_string_comma_default assert_true:2 bitstring_byte_comparable:2 can_cast_implicitly cast_to_type
        create_sort_key days_in_month decimal_division:2 format_pg_type generate_subscripts geometric_mean
        hive_partition_component:2 icu_sort_key if:2 index_key:2 is_histogram_other_bin json
        json_copy_strftime_if_date:2 json_copy_strftime_if_timestamp:2 json_group_array json_group_object
        json_group_structure json_normalize:2 json_strip_nulls:2 list_approx_count_distinct list_bit_and list_bit_or
        list_bit_xor list_bool_and list_bool_or list_entropy list_first list_histogram list_kurtosis list_kurtosis_pop
        list_last list_mad list_median list_mode list_product list_sem list_skewness list_stddev_pop list_stddev_samp
        list_string_agg list_var_pop list_var_samp make_type map_contains_entry map_contains_value map_to_pg_oid
        md5_number_lower md5_number_upper regexp_split_to_table remap_struct replace_type st_asbinary st_asgeojson:2
        st_astext st_aswkb st_aswkt st_crs st_geomfromgeojson:2 st_geomfromwkb st_intersects_extent st_setcrs switch
        timetz_byte_comparable variant_array_length:2 variant_bytes_to_variant variant_comparator:2 variant_contains:2
        variant_exists:2 variant_extract variant_extract_string:2 variant_group_array:2 variant_keys:2 variant_normalize
        variant_to_parquet_variant variant_type:2 variant_typeof vertex_extract:2
    """,
        T.AGGREGATE: """
        approx_count_distinct arg_max arg_min argmax argmin avg bit_and bit_or bit_xor bool_and bool_or corr count
        count_if count_star countif covar_pop covar_samp cume_dist decimal_average:2 dense_rank entropy favg fill
        first_value fsum kahan_sum kurtosis kurtosis_pop lag last_value lead mad max max_by mean median min min_by mode
        nth_value ntile percent_rank product quantile quantile_cont quantile_disc rank rank_dense regr_avgx regr_avgy
        regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_number sem skewness stddev
        stddev_pop stddev_samp sum sum_no_overflow sumkahan var_pop var_samp variance
    """,
        T.AGGREGATE | T.SYNTAX: "percentile_cont percentile_disc",
        T.AGGREGATE | T.ORDER: "any_value approx_quantile arbitrary first last",
        T.AGGREGATE | T.GATHERS: "array_agg group_concat histogram histogram_exact list listagg string_agg",
        T.AGGREGATE | T.UNTRIED_IN_VIEWS: "arg_max_null arg_min_null",
        T.AGGREGATE | T.GATHERS | T.UNTRIED_IN_VIEWS: """
        approx_top_k arg_max_nulls_last arg_min_nulls_last lttb:2 variant_group_object:2
    """,
        T.AGGREGATE | T.GIVEN | T.UNTRIED_IN_VIEWS: "combine_aggr:2",
        T.OPERATOR: """
        !=:2 !__postfix !~~ !~~* % & && * ** + - ->> / // <:2 << <=:2 <@ =:2 >:2 >=:2 >> @ @> ^ ^@ __between:2 __cast:2
        is␣distinct␣from:2 is␣not␣distinct␣from:2 | || ~ ~~ ~~* ~~~
    """,
        T.OPERATOR | T.UNTRIED_IN_VIEWS: "<-> <=>",
        T.SYNTAX: "! -> <> __lambda coalesce grouping ifnull",
        T.SYNTAX | T.ROWS: "unnest",
        T.GIVEN: """
        array_filter array_transform combine filter list_aggr list_aggregate list_apply list_filter list_reduce
        list_transform list_zip unpivot_list
    """,
        T.GIVEN | T.UNTRIED_IN_VIEWS: """
        aggregate apply array_aggr array_aggregate array_apply array_reduce array_zip finalize invoke:2 reduce
        to_aggregate_state:2
    """,
        T.ROWS: "generate_series range",
        T.WIDTH: "lpad repeat rpad",
        T.LENGTH: "array_resize bar bitstring equi_width_bins format list_resize printf",
        T.AGGREGATE | T.LENGTH: "bitstring_agg",
        T.SQUARE: "damerau_levenshtein editdist3 jaro_similarity jaro_winkler_similarity levenshtein nfc_normalize",
        T.SQUARE | T.LENGTH: "json_pretty",
        T.PAIRS: "json_contains json_merge_patch",
        T.PAIRS | T.UNTRIED_IN_EXPRESSIONS: "json_deep_merge:2 json_merge_patch_diff:2",
        T.LEVELS: "from_json from_json_strict json_transform json_transform_strict",
        T.CODES: "hash",
        T.CODES | T.UNTRIED_IN_EXPRESSIONS: "enum_code",
        T.MEMBERS: "typeof",
        T.MEMBERS | T.UNTRIED_IN_EXPRESSIONS: "enum_first enum_last enum_range enum_range_boundary",
        T.ZONE: "make_timestamptz timezone timezone_hour timezone_minute",
        T.CLOCK: """
        age ago current_date current_localtime current_localtimestamp get_current_time get_current_timestamp now today
        transaction_timestamp
    """,
        T.CHANCE: "gen_random_uuid random reservoir_quantile uuid uuidv4 uuidv7",
        T.SEQUENCE: "currval nextval",
        T.SQL: "json_deserialize_sql json_serialize_plan json_serialize_sql",
        T.WAITS: "pg_sleep sleep_ms",
        T.CHANGES: "setseed setval:2 write_log",
        T.SESSION: """
        col_description current_catalog current_connection_id current_database current_query current_query_id
        current_role current_schema current_schemas current_setting current_transaction_id current_user format_type
        getvariable has_any_column_privilege has_column_privilege has_database_privilege
        has_foreign_data_wrapper_privilege has_function_privilege has_language_privilege has_schema_privilege
        has_sequence_privilege has_server_privilege has_table_privilege has_tablespace_privilege in_search_path
        inet_client_addr inet_client_port inet_server_addr inet_server_port map_type_id_to_pg_oid:2.0.1 obj_description
        pg_collation_is_visible pg_conf_load_time pg_conversion_is_visible pg_function_is_visible pg_get_constraintdef
        pg_get_expr pg_get_viewdef pg_has_role pg_is_other_temp_schema pg_my_temp_schema pg_opclass_is_visible
        pg_operator_is_visible pg_opfamily_is_visible pg_postmaster_start_time pg_size_pretty pg_table_is_visible
        pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible
        pg_type_is_visible pg_typeof session_user shobj_description txid_current user version
    """,
        T.INTERNAL: """
        __internal_barrier:2 __internal_compress_geometry_point:2 __internal_compress_integral_ubigint
        __internal_compress_integral_uinteger __internal_compress_integral_usmallint
        __internal_compress_integral_utinyint __internal_compress_string_hugeint __internal_compress_string_ubigint
        __internal_compress_string_uhugeint __internal_compress_string_uinteger __internal_compress_string_usmallint
        __internal_compress_string_utinyint __internal_compressed_materialization_cast:2
        __internal_decompress_geometry_point:2 __internal_decompress_integral_bigint
        __internal_decompress_integral_hugeint __internal_decompress_integral_integer
        __internal_decompress_integral_smallint __internal_decompress_integral_ubigint
        __internal_decompress_integral_uhugeint __internal_decompress_integral_uinteger
        __internal_decompress_integral_usmallint __internal_decompress_string __internal_json_copy_to_geojson:2
        __internal_json_copy_to_json:2 __internal_tablefilter_bloom_filter:2 __internal_tablefilter_dynamic:2
        __internal_tablefilter_optional:2 __internal_tablefilter_prefix_range:2
        __internal_tablefilter_selectivity_optional:2 get_block_size get_type parse_duckdb_log_message stats vector_type
    """,
    }
)
"""Scalar functions, aggregates, and macros that stand for a value."""
TABLES: Final = _listed(
    {
        T.ROWS: "generate_series json_each json_tree range repeat repeat_row unnest",
        T.FILE_ROWS: """
        parquet_scan read_csv read_csv_auto read_json read_json_auto read_ndjson read_ndjson_auto read_parquet
    """,
        T.FILES: """
        arrow_scan arrow_scan_dumb glob pandas_scan parquet_bloom_probe parquet_file_metadata parquet_full_metadata
        parquet_kv_metadata parquet_metadata parquet_page_index:2.0.1 parquet_schema python_arrow_scan:2
        python_map_function read_blob read_duckdb read_json_objects read_json_objects_auto read_ndjson_objects
        read_single_csv_file:2 read_single_json_file:2 read_single_parquet_file:2 read_text sniff_csv
    """,
        T.SQL: "histogram histogram_values json_execute_serialized_sql query query_table summary",
        T.CHANGES: """
        add_grammar_extension:2.0.1 add_parquet_key checkpoint copy_database create_external_resource:2
        deregister_external_resource:2 destroy_external_resource:2 disable_checkpoint_on_shutdown disable_logging
        disable_object_cache disable_optimizer disable_print_progress_bar disable_profile disable_profiling
        disable_progress_bar disable_verification disable_verify_external:<2 disable_verify_fetch_row:<2
        disable_verify_parallelism disable_verify_serializer:<2 enable_checkpoint_on_shutdown enable_logging
        enable_object_cache enable_optimizer enable_print_progress_bar enable_profile enable_profiling
        enable_progress_bar enable_verification force_checkpoint import_database register_external_resource:2
        register_external_resource_type:2 remove_grammar_extension:2.0.1 truncate_duckdb_logs verify_external:<2
        verify_fetch_row:<2 verify_parallelism verify_serializer:<2
    """,
        T.INTERNAL: "seq_scan test_all_types test_vector_types",
        T.SESSION: """
        all_profiling_output:<2 collations database_list database_size duckdb_approx_database_count
        duckdb_available_metrics:2 duckdb_columns duckdb_connection_count duckdb_constraints duckdb_coordinate_systems
        duckdb_databases duckdb_dependencies duckdb_dialects:2 duckdb_eviction_queues:2 duckdb_extension_repositories:2
        duckdb_extensions duckdb_external_file_cache duckdb_external_resource_types:2 duckdb_external_resources:2
        duckdb_functions duckdb_grammar_extensions:2 duckdb_indexes duckdb_keywords duckdb_live_query_metrics:2.0.1
        duckdb_log_contexts duckdb_logs duckdb_logs_parsed duckdb_memory duckdb_optimizers duckdb_prepared_statements
        duckdb_profiling_settings duckdb_schemas duckdb_secret_type_parameters:2 duckdb_secret_types duckdb_secrets
        duckdb_sequences duckdb_settings duckdb_table_sample duckdb_tables duckdb_temporary_files duckdb_triggers:2
        duckdb_types duckdb_variables duckdb_views extension_versions functions icu_calendar_names metadata_info
        pg_timezone_names platform pragma_collations pragma_database_size pragma_metadata_info pragma_platform
        pragma_show pragma_storage_info pragma_table_info pragma_user_agent pragma_version show show_databases
        show_tables show_tables_expanded storage_info table_info user_agent version which_secret
    """,
    }
)
"""Table functions, macros that stand for a table, and pragmas."""

TIMES_LONGER: Final[Mapping[str, int]] = {
    **dict.fromkeys(("hex", "to_hex", "base64", "to_base64", "json_quote", "regexp_escape", "reverse"), 2),
    **dict.fromkeys(("url_encode", "nfc_normalize", "upper", "ucase", "lower", "lcase"), 3),
    **dict.fromkeys(
        ["list_append", "list_prepend", "array_append", "array_prepend", "list_pack", "array_value", "row", "map"], 2
    ),
    **dict.fromkeys(["struct_insert", "struct_update", "struct_concat", "map_keys", "map_values", "list_value"], 2),
    **dict.fromkeys(
        ["json_extract", "json_extract_path", "json_extract_string", "json_extract_path_text", "json_keys"], 4
    ),
    **dict.fromkeys(("to_json", "array_to_json", "row_to_json", "json_array", "json_object", "json_pretty"), 6),
    **dict.fromkeys(
        ["split", "string_split", "str_split", "string_to_array", "string_split_regex", "str_split_regex"], 6
    ),
    **dict.fromkeys(["regexp_split_to_array", "regexp_extract_all", "map_entries", "parse_path", "parse_dirpath"], 6),
    **dict.fromkeys(["list_grade_up", "array_grade_up", "grade_up", "list_reverse_sort", "strip_accents"], 6),
    **dict.fromkeys(("bin", "to_binary"), 8),
    **dict.fromkeys(("json_structure", "json_value"), 9),
    "encode": 16,
    "strftime": 20,
}
"""How many characters of a function's text, or of its list's, can stand for one of its arguments, where it is not one.

Nothing that is made of a list as a text is counted here: values that become one have room for quotes and signs before
them, see `dpsql.language.size_bounds`.
"""


def callable_with(traits: Trait, functions: Mapping[str, Function] = VALUES) -> frozenset[str]:
    """The functions that have none but these traits.

    >>> sorted(callable_with(Trait.PURE) & {"abs", "random", "brand_new"})
    ['abs']
    """
    return frozenset(name for name, function in functions.items() if not function.traits & ~traits)


def having(traits: Trait, functions: Mapping[str, Function] = VALUES) -> frozenset[str]:
    """The functions that have one of these traits.

    >>> sorted(having(Trait.LEVELS))
    ['from_json', 'from_json_strict', 'json_transform', 'json_transform_strict']
    """
    return frozenset(name for name, function in functions.items() if function.traits & traits)


def of_version(version: str, functions: Mapping[str, Function] = VALUES) -> frozenset[str]:
    """The functions that the catalogue of a version of DuckDB lists.

    >>> "binom" in of_version("2.0.1"), "binom" in of_version("1.5.5")
    (True, False)
    """
    number = tuple(map(int, version.split(".")))
    return frozenset(
        name
        for name, (traits, since, before) in functions.items()
        if since <= number and (not before or number < before) and not traits & Trait.SYNTAX
    )
