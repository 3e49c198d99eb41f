from hermes.tools.schema import outline, plain, resolve


def test_titles_go_but_a_property_called_title_stays() -> None:
    schema = {
        "title": "Row",
        "type": "object",
        "properties": {"title": {"title": "Title", "type": "string"}},
    }

    assert plain(schema) == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "additionalProperties": False,
    }


def test_defaults_and_enums_are_data_and_stay_as_they_are() -> None:
    schema = {"enum": [{"title": "x"}], "default": {"title": "y"}}

    assert plain(schema) == schema


def test_an_optional_scalar_becomes_a_list_of_two_types() -> None:
    schema = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}

    assert plain(schema) == {"type": ["integer", "null"], "minimum": 1}


def test_an_optional_enum_keeps_its_branches() -> None:
    schema = {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}

    assert plain(schema) == schema


def test_a_definition_used_once_is_written_where_it_is_used() -> None:
    schema = {
        "properties": {"at": {"$ref": "#/$defs/P", "description": "where"}},
        "$defs": {"P": {"type": "object", "description": "A point."}},
    }

    assert plain(schema)["properties"] == {"at": {"type": "object", "description": "where"}}
    assert "$defs" not in plain(schema)


def test_a_definition_used_twice_or_by_itself_stays_one() -> None:
    node = {"type": "array", "items": {"$ref": "#/$defs/N"}}
    schema = {"properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}

    assert plain(schema)["$defs"] == {"N": node}


def test_a_reference_is_looked_up_with_its_escapes() -> None:
    root = {"$defs": {"a/b": {"~": True}}}

    assert resolve(root, "#/$defs/a~1b/~0") is True
    assert resolve(root, "#/$defs/none") is None
    assert resolve(root, "other.json#/$defs") is None


def test_an_outline_is_short_and_marks_what_may_be_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": ["integer", "null"]},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/R"}},
            "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "any": {},
        },
        "required": ["city"],
        "$defs": {"R": {"properties": {"qty": {"type": "integer"}}, "required": ["qty"]}},
    }

    assert outline(schema) == (
        '{"city": string, "unit"?: "c" | "f", "days"?: integer | null, '
        '"rows"?: [{"qty": integer}, …], "when"?: date | null, "any"?: any}'
    )


def test_an_outline_of_a_huge_or_endless_schema_is_bounded() -> None:
    endless = {"properties": {f"p{n}": {"$ref": "#"} for n in range(30)}}

    assert len(outline(endless)) <= 1_000
