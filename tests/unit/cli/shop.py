"""A small shop that the command's tests work in, and what a command came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

RUN = ("--tools", "tools.py", "--playbook", "rules.yaml")

TOOLS = '''
import time
from hermes import tool, ToolError

@tool(effect="read")
def look(name: str) -> str:
    """Look something up."""
    return f"saw {name}"

@tool(effect="read")
def fail() -> str:
    """Fail."""
    raise ValueError("the shelf is empty")

@tool(timeout_s=0.05)
def pay() -> str:
    """Pay."""
    time.sleep(0.3)
    return "paid"
'''

PLAYBOOK = """
playbook: 1
name: shop
rules:
  - name: look
    when: {all: [look]}
    steps:
      - {call: look, with: {name: "{{ vars.get('what', 'lamp') }}"}, as: seen}
    answer: "{{ seen }}"
  - name: fail
    when: {all: [fail]}
    steps: [{call: fail, as: x}]
    answer: "never"
  - name: pay
    when: {all: [pay]}
    steps: [{call: pay, as: x}]
    answer: "{{ x }}"
otherwise: "你好"
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def value(self) -> dict[str, object]:
        return json.loads(self.out)


Cli = Callable[..., Result]
