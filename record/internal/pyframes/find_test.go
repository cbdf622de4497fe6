package pyframes

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// start runs a program that says that it is ready, and then waits for the end of its input.
func start(t *testing.T, cmd *exec.Cmd) (pid int, said string) {
	t.Helper()
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	said = must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	return cmd.Process.Pid, said
}

// TestFind finds each interpreter, where it says that its symbols are.
func TestFind(t *testing.T) {
	const program = `import ctypes, sys
p = ctypes.PyDLL(None)
print(*(ctypes.addressof(ctypes.c_char.in_dll(p, n)) for n in ("_PyRuntime", "PyGILState_GetThisThreadState", "PyCode_Type")), flush=True)
sys.stdin.read()`
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		pid, said := start(t, exec.Command(p.Path, "-c", program))
		i, err := Find(pid)
		if err != nil || i == nil {
			t.Fatal(i, err)
		}
		if *i.Layout != *layoutOf(p.Minor) || i.Version != fmt.Sprintf("3.%d", p.Minor) {
			t.Errorf("it is taken for %s", i.Version)
		}
		if got := fmt.Sprintln(i.Runtime, i.GILState, i.CodeType); got != said {
			t.Errorf("addresses %s, not %s", got, said)
		}
	})
}

// TestFindNone looks at a program without an interpreter, and at a process that is gone.
func TestFindNone(t *testing.T) {
	t.Parallel()
	if i, err := Find(os.Getpid()); i != nil || err != nil {
		t.Error(i, err)
	}
	gone := exec.Command("true")
	must.Do(t, gone.Run())
	if i, err := Find(gone.Process.Pid); i != nil || err == nil {
		t.Error(i, err)
	}
}

// A fake is a library with an interpreter's symbols.
type fake struct {
	name    string // of the file
	soname  string
	version uint32 // 0: none
	symbols string // C
	runtime string // the words of _PyRuntime, in C; "": zeros
}

func (f fake) build(t *testing.T, dir string) string {
	t.Helper()
	source, path := filepath.Join(dir, f.name+".c"), filepath.Join(dir, f.name)
	text := "char PyCode_Type[512]; unsigned long _PyRuntime[512] = {" + f.runtime +
		"};\nvoid *PyGILState_GetThisThreadState(void) { return 0; }\n" + f.symbols
	if f.version != 0 {
		text += fmt.Sprintf("\nconst unsigned long Py_Version = %#x;\n", f.version)
	}
	must.Do(t, os.WriteFile(source, []byte(text), 0o600))
	args := []string{"-shared", "-fPIC", "-o", path, source}
	if f.soname != "" {
		args = append(args, "-Wl,-soname,"+f.soname)
	}
	must.Run(t, exec.Command("gcc", args...))
	return path
}

// hostProgram builds a program that opens libraries.
func hostProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "host.c"), filepath.Join(dir, "host")
	const text = `#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL))
			return puts(dlerror()), 1;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
}`
	must.Do(t, os.WriteFile(source, []byte(text), 0o600))
	must.Run(t, exec.Command("gcc", "-o", path, source, "-ldl"))
	return path
}

// TestUnusable gives reasons for interpreters that are not walked.
func TestUnusable(t *testing.T) {
	const final = 0xf0
	python := func(version uint32, symbols string) fake {
		minor := version >> 16 & 255
		return fake{name: fmt.Sprintf("libpython3.%d.so.1.0", minor), version: version, symbols: symbols}
	}
	host := hostProgram(t)
	for name, c := range map[string]struct {
		libraries []fake
		want      string // "": it can be walked
	}{
		"3.12":             {[]fake{python(0x030c0300|final, "")}, ""},
		"renamed":          {[]fake{{name: "libpython3-d4a45d1d.12.so.1.0", version: 0x030c0300 | final}}, ""},
		"3.10":             {[]fake{{name: "libpython3.10.so.1.0", symbols: "void Py_NewRef(void) {} void PyThreadState_GetFrame(void) {}"}}, ""},
		"3.16":             {[]fake{python(0x03100000|final, "")}, "is CPython 3.16.0; frames of 3.9 to 3.15 are known"},
		"4.12":             {[]fake{python(0x040c0000|final, "")}, "is CPython 4.12.0; frames of 3.9 to 3.15 are known"},
		"3.8":              {[]fake{{name: "libpython3.8.so.1.0"}}, "is CPython 3.8 or older"},
		"before release":   {[]fake{python(0x030c00b1, "")}, "is CPython 3.12.0 before its release"},
		"debug":            {[]fake{python(0x030c0300|final, "void _Py_NegativeRefcount(void) {}")}, "is a debug build of CPython 3.12.3"},
		"counts":           {[]fake{python(0x030b0300|final, "long _Py_RefTotal;")}, "is a debug build of CPython 3.11.3"},
		"traces":           {[]fake{python(0x030b0300|final, "void _Py_PrintReferences(void) {}")}, "is a build that traces references of CPython 3.11.3"},
		"free-threaded":    {[]fake{python(0x030d0100|final, "void _Py_MergeZeroLocalRefcount(void) {}")}, "is a free-threaded build of CPython 3.13.1"},
		"other layout":     {[]fake{python(0x030d0100|final, "")}, "is CPython 3.13.1, but publishes another layout of its structures"},
		"name and version": {[]fake{{name: "libpython3.11.so.1.0", soname: "libpython3.11.so.1.0", version: 0x030c0300 | final}}, "seems to be CPython 3.12.3, but is called libpython3.11.so.1.0"},
		"two":              {[]fake{python(0x030c0300|final, ""), python(0x030b0300|final, "")}, "it has two interpreters"},
		"none":             {[]fake{{name: "libpythonic.so", version: 0x030c0300 | final}}, "none"},
		"no version":       {[]fake{{name: "libpython3.12.so.1.0", symbols: "unsigned long Py_Version[2];"}}, "does not tell its version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{}
			for _, l := range c.libraries {
				args = append(args, l.build(t, dir))
			}
			pid, _ := start(t, exec.Command(host, args...))
			i, err := Find(pid)
			var why Unusable
			switch {
			case c.want == "none":
				if i != nil || err != nil {
					t.Error(i, err)
				}
			case c.want == "":
				if i == nil || err != nil {
					t.Error(i, err)
				}
			case i != nil || !errors.As(err, &why) || !strings.Contains(err.Error(), c.want):
				t.Errorf("%v, %v; want %q", i, err, c.want)
			}
		})
	}
}

// TestDebugBuild looks at a real debug build, where there is one.
func TestDebugBuild(t *testing.T) {
	t.Parallel()
	path := cmp.Or(os.Getenv("CUDATRACE_DEBUG_PYTHON"), "/usr/bin/python3-dbg")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no debug build of Python here")
	}
	pid, _ := start(t, exec.Command(path, "-c", "import sys; print(1, flush=True); sys.stdin.read()"))
	if i, err := Find(pid); i != nil || err == nil || !strings.Contains(err.Error(), "is a debug build of CPython") {
		t.Error(i, err)
	}
}
