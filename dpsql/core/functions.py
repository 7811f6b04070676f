"""What somebody found out about DuckDB's own functions, for all who decide which of them may be called.

Three lists are made with it: what people's expressions may call (`dpsql.evaluation.sandbox`), what a view may call that
is read as public (`dpsql.books.reads`), and what users of the service may (`dpsql.service.allowed`). A test compares
the lists with each other, and with the catalogue of each version of DuckDB in `dpsql.engines.duckdb.versions`.
"""

from __future__ import annotations

from typing import Final

LONG: Final = frozenset(
    "array_resize bar format list_resize lpad printf repeat rpad".split()  # noqa: SIM905
)
"""Make a text or a list of any length from short arguments."""

WIDTH_IN_TEXT: Final = frozenset({"lpad", "repeat", "rpad"})
"""Of `LONG`, those whose length stands in the call: it may be called where that was read, and is short."""

CALLS_OTHERS: Final = frozenset(
    """
    aggregate apply array_aggr array_aggregate array_apply array_filter array_reduce array_transform array_zip combine
    filter finalize invoke json_deserialize_sql json_serialize_plan json_serialize_sql list_aggr list_aggregate
    list_apply list_filter list_reduce list_transform list_zip reduce to_aggregate_state unpivot_list
    """.split()  # noqa: SIM905
)
"""Call a function that is given to them, or read a text as SQL, or make states and lists that others read."""

RECURSIVE: Final = frozenset(
    "from_json from_json_strict json_transform json_transform_strict".split()  # noqa: SIM905
)
"""Call themselves for each level of a value: DuckDB 1.5.5 to 2.0.1 end the process at a text of 49,000 brackets."""

QUADRATIC: Final = frozenset(
    """
    damerau_levenshtein editdist3 jaro_similarity jaro_winkler_similarity json_pretty levenshtein nfc_normalize
    """.split()  # noqa: SIM905
)
"""Take a time that grows with the square of a text's length, in which DuckDB notices no interrupt."""

PAIRS_OF_VALUES: Final = frozenset(
    "json_contains json_deep_merge json_merge_patch json_merge_patch_diff".split()  # noqa: SIM905
)
"""Go through two values at once, level by level: of deep ones they may end the process, or take a square of time."""

ALONE: Final = QUADRATIC | PAIRS_OF_VALUES
"""May be called only where the process may die alone, and is killed when its time is over."""

LOOK_AROUND: Final = frozenset(
    "age current_localtime current_localtimestamp current_setting getvariable".split()  # noqa: SIM905
)
"""Read the clock or the session, though DuckDB's catalogue does not say so."""

PLAIN: Final = frozenset(
    """
    abs acos acosh add array_cat array_concat array_contains array_cosine_distance array_cosine_similarity
    array_cross_product array_distance array_distinct array_dot_product array_extract array_grade_up array_has
    array_has_all array_has_any array_indexof array_inner_product array_intersect array_length
    array_negative_dot_product array_negative_inner_product array_position array_reverse_sort array_select
    array_slice array_sort array_to_json array_unique array_value array_where ascii asin asinh atan atan2 atanh
    base64 bin binom bit_count bit_length bit_position cardinality cbrt ceil ceiling century char_length
    character_length chr concat concat_ws contains cos cosh cot damerau_levenshtein date_diff date_part date_sub
    date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade decode degrees
    divide editdist3 element_at encode ends_with epoch epoch_ms epoch_ns epoch_us equi_width_bins era even exp
    factorial flatten floor fmod format_bytes formatreadabledecimalsize formatreadablesize from_base64 from_binary
    from_hex gamma gcd get_bit grade_up greatest greatest_common_divisor hamming hash hex hour ilike_escape instr
    isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json_array json_array_length
    json_contains json_exists json_extract json_extract_path json_extract_path_text json_extract_string json_insert
    json_keys json_merge_patch json_object json_quote json_remove json_replace json_set json_structure json_type
    json_valid json_value julian last_day lcase lcm least least_common_multiple left left_grapheme len length
    length_grapheme levenshtein lgamma like_escape list_cat list_concat list_contains list_cosine_distance
    list_cosine_similarity list_distance list_distinct list_dot_product list_element list_extract list_grade_up
    list_has list_has_all list_has_any list_indexof list_inner_product list_intersect list_negative_dot_product
    list_negative_inner_product list_pack list_position list_reverse_sort list_select list_slice list_sort
    list_unique list_value list_where ln log log10 log2 lower lpad ltrim make_date make_time make_timestamp
    make_timestamp_ms make_timestamp_ns make_timestamptz map map_concat map_contains map_entries map_extract
    map_extract_value map_from_entries map_keys map_values md5 md5_number microsecond millennium millisecond minute
    mismatches mod month monthname multiply nanosecond nextafter nfc_normalize normalized_interval not_ilike_escape
    not_like_escape octet_length ord overlay parse_dirname parse_dirpath parse_filename parse_formatted_bytes
    parse_path path_join pi position pow power prefix quarter radians regexp_escape regexp_extract
    regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array replace reverse right
    right_grapheme round round_even roundbankers row row_to_json rpad rtrim second set_bit sha1 sha256 sign signbit
    sin sinh split sqrt starts_with str_split str_split_regex strftime string_split string_split_regex
    string_to_array strip_accents strlen strpos strptime struct_concat struct_contains struct_extract
    struct_extract_at struct_has struct_indexof struct_insert struct_keys struct_pack struct_position struct_update
    struct_values substr substring substring_grapheme subtract suffix tan tanh time_bucket timezone timezone_hour
    timezone_minute to_base to_base64 to_binary to_centuries to_days to_decades to_hex to_hours to_json
    to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks
    to_years translate trim trunc try_strptime typeof ucase unbin unhex unicode upper url_decode url_encode
    uuid_extract_timestamp uuid_extract_version week weekday weekofyear xor year yearweek
    """.split()  # noqa: SIM905
)
"""Scalar functions that somebody looked at, and whose value depends on their arguments alone."""
