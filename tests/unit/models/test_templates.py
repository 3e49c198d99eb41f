import pytest

from hermes.models.templates import TemplateFault, expression, template

NAMES = {
    "n": 3,
    "text": "ab",
    "none": None,
    "flag": True,
    "group": {"kind": "霜", "items": [1, 2], "count": 7},
    "rows": [{"k": "a"}, {"k": "b"}],
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("{{ n }}", 3),
        ("{{ group }}", NAMES["group"]),
        ("{{ none }}", None),
        ("{{- n -}}", 3),
        ("{{ n }}\n", 3),
        ("{{ rows | map(attribute='k') }}", ["a", "b"]),
        ("{{ range(3) }}", [0, 1, 2]),
        ("{{ (1, 2) }}", [1, 2]),
        ("{{ 'x' }}", "x"),
        ("{{ {'a': n} }}", {"a": 3}),
        ("{{ missing_one | default('d') }}", "d"),
        (" {{ n }}", " 3"),
        ("n={{ n }}", "n=3"),
        ("{{ n }}{{ text }}", "3ab"),
        ("{{ group.kind }}: {{ group.items }}", "霜: [1,2]"),
        ("{{ flag }} {{ none }}.", "true ."),
        (
            "{{ rows }} {{ group | tojson }}",
            '[{"k":"a"},{"k":"b"}] {"kind":"霜","items":[1,2],"count":7}',
        ),
        ("{% for row in rows %}{{ row.k }};{% endfor %}", "a;b;"),
        ("<{{ text }}>", "<ab>"),
        ("plain", "plain"),
    ],
)
def test_one_expression_keeps_its_type_and_the_rest_is_text(source: str, value: object) -> None:
    assert template(source).value(NAMES) == value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("n > 2 and text == 'ab'", True),
        ("rows[:1]", [{"k": "a"}]),
        ("group.items", [1, 2]),
        ("group.count", 7),
        ("text.upper()", "AB"),
        ("missing_one is defined", False),
        ("n % 2", 1),
        ("text * 2", "abab"),
    ],
)
def test_an_expression_gives_a_plain_value(source: str, value: object) -> None:
    assert expression(source).value(NAMES) == value


@pytest.mark.parametrize("source", ["{{ n }}", "", "n }} {{ n", "n +", "if n", "{% raw %}"])
def test_what_is_no_expression_is_refused(source: str) -> None:
    with pytest.raises(TemplateFault):
        expression(source)


@pytest.mark.parametrize(
    "source", ["{{ n", "{{ n | nofilter }}", "{% if n %}", "{{ }}", "{{ n n }}"]
)
def test_a_wrong_template_is_refused(source: str) -> None:
    with pytest.raises(TemplateFault) as caught:
        template(source)
    assert source in caught.value.message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ group.kid }}", "has no attribute 'kid'"),
        ("{{ [nothing] }}", "'nothing' is undefined"),
        ("a {{ nothing }}", "'nothing' is undefined"),
        ("{{ n / 0 }}", "division by zero"),
        ("{{ n + text }}", "unsupported operand"),
        ("{{ text.upper }}", "which is no plain value"),
        ("{{ n.foo() }}", "has no attribute 'foo'"),
    ],
)
def test_what_cannot_be_filled_is_a_fault_with_its_reason(source: str, reason: str) -> None:
    with pytest.raises(TemplateFault) as caught:
        template(source).value(NAMES)
    assert reason in caught.value.message


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ group.__init__.__globals__ }}",
        "{{ (group | attr('__class__')) }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ rows.append(1) }}",
        "{{ group.update({'a': 1}) }}",
        "{{ '%s' % group }}",
        "{{ '{0.__class__}'.format(n) }}",
        "{% include 'etc' %}",
    ],
)
def test_nothing_of_python_can_be_reached_or_changed(source: str) -> None:
    with pytest.raises(TemplateFault):
        template(source).value(NAMES)
    assert NAMES["rows"] == [{"k": "a"}, {"k": "b"}]


@pytest.mark.parametrize(
    "source",
    [
        "{{ range(10 ** 9) | list }}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ 10 ** 9 * 'a' }}",
        "{{ [1] * 1000000 }}",
        "{{ 10 ** (10 ** 10) }}",
    ],
)
def test_huge_things_are_not_made(source: str) -> None:
    with pytest.raises(TemplateFault):
        template(source).value({})


def test_a_template_knows_the_names_it_needs() -> None:
    assert template("{{ a.b }} {% for x in xs %}{{ x }}{% endfor %}").names == {"a", "xs"}
    assert template("{{ range(n) }}").names == {"n"}
    assert expression("a[b] and c is defined").names == {"a", "b", "c"}


def test_a_missing_variable_says_how_to_give_it() -> None:
    with pytest.raises(TemplateFault, match="--var NAME=VALUE"):
        template("{{ vars.path }}").value({"vars": {}})
