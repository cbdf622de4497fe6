"""Prints code objects of the standard library and of odd programs: first line, table, and the line that CPython itself
finds for each offset. A line of output is a code object."""
import argparse, ast, ctypes, json, sys, tokenize

line_of = ctypes.PyDLL(None).PyCode_Addr2Line
line_of.argtypes = [ctypes.py_object, ctypes.c_int]
line_of.restype = ctypes.c_int


def codes(code):
    yield code
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            yield from codes(c)


def show(code):
    table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
    unit = 2
    lines = [line_of(code, at) for at in range(0, len(code.co_code), unit)]
    print(json.dumps({"name": code.co_name, "first": code.co_firstlineno, "table": table.hex(), "unit": unit, "lines": lines}))


odd = ["x = (\n" + "1 +\n" * 300 + "1)\n",
       "def f():\n" + "\n" * 1000 + "    return 1\n",
       "def f(a):\n    for i in a:\n        try:\n            yield i\n        finally:\n            print(\n\n\ni)\n",
       "lambda: [\n(i, j)\nfor i in range(3)\nfor j in range(3)]\n",
       "class A:\n    def __init__(self):\n        self.a = (1,\n\n\n 2)\n",
       "async def f():\n    async with a as b:\n        await (\n b)\n",
       "\n" * 70000 + "def f():\n    pass\n" + "\n" * 70000 + "f()\n"]
for text in odd:
    for c in codes(compile(text, "<odd>", "exec")):
        show(c)
for module in (argparse, ast, tokenize, ctypes, json.decoder):
    with open(module.__file__, "rb") as f:
        for c in codes(compile(f.read(), module.__file__, "exec")):
            show(c)
