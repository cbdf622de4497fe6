package pyframes

import (
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

// fields names what a layout's offsets are in CPython's headers. A name that a version lacks is empty there.
func fields(l *Layout) map[string]int {
	f := map[string]int{
		"_PyRuntimeState, _finalizing":       l.Runtime.Finalizing,
		"_PyRuntimeState, interpreters.head": l.Runtime.Interpreters,
		"_PyRuntimeState, interpreters.main": l.Runtime.Interpreters + 8,
		"PyThreadState, next":                l.Thread.Next,
		"PyThreadState, interp":              l.Thread.Interpreter,
		"PyThreadState, thread_id":           l.Thread.ID,
		"PyCodeObject, co_firstlineno":       l.Code.FirstLine,
		"PyCodeObject, co_filename":          l.Code.File,
		"PyASCIIObject, length":              TextLength,
		"PyASCIIObject, hash":                TextHash,
		"PyASCIIObject, state":               TextState,
		"PyBytesObject, ob_base.ob_size":     BytesSize,
		"PyBytesObject, ob_sval":             BytesData,
	}
	if l.Minor < 11 {
		f["PyInterpreterState, tstate_head"] = l.Threads
		f["PyThreadState, frame"] = l.Thread.Frame
		f["PyFrameObject, f_code"], f["PyFrameObject, f_back"], f["PyFrameObject, f_lasti"] = l.Frame.Code, l.Frame.Previous, l.Frame.Instruction
		f["PyCodeObject, co_name"] = l.Code.Name
	} else {
		f["PyInterpreterState, threads.head"] = l.Threads
		f["PyThreadState, native_thread_id"], f["PyThreadState, datastack_chunk"] = l.Thread.NativeID, l.Thread.Chunk
		f["_PyStackChunk, previous"], f["_PyStackChunk, size"], f["_PyStackChunk, data"] = 0, 8, 24
		f["_PyInterpreterFrame, previous"], f["_PyInterpreterFrame, owner"] = l.Frame.Previous, l.Frame.Owner
		f["PyCodeObject, co_qualname"], f["PyCodeObject, co_code_adaptive"] = l.Code.Name, l.Code.First
	}
	switch {
	case l.Minor < 10:
		f["PyCodeObject, co_lnotab"] = l.Code.LineTable
	default:
		f["PyCodeObject, co_linetable"] = l.Code.LineTable
	}
	switch l.Minor {
	case 11, 12:
		f["PyThreadState, cframe"], f["_PyCFrame, current_frame"] = l.Thread.Frame, l.Thread.CFrame
		f["_PyInterpreterFrame, f_code"], f["_PyInterpreterFrame, prev_instr"] = l.Frame.Code, l.Frame.Instruction
	case 13, 14, 15:
		f["PyThreadState, current_frame"] = l.Thread.Frame
		f["_PyInterpreterFrame, f_executable"], f["_PyInterpreterFrame, instr_ptr"] = l.Frame.Code, l.Frame.Instruction
	}
	if l.Minor >= 12 {
		f["PyCodeObject, co_version"] = l.Code.Version
	}
	return f
}

// TestHeaders compares each layout with the headers of its version.
func TestHeaders(t *testing.T) {
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		include := filepath.Join(p.Prefix, "include", fmt.Sprintf("python3.%d", p.Minor))
		if _, err := os.Stat(filepath.Join(include, "internal", "pycore_runtime.h")); err != nil {
			t.Skip("its headers are not here")
		}
		l := layoutOf(p.Minor)
		var b strings.Builder
		b.WriteString("#define Py_BUILD_CORE 1\n#include <Python.h>\n#include <stddef.h>\n#include <internal/pycore_runtime.h>\n#include <internal/pycore_interp.h>\n")
		if l.Minor < 11 {
			b.WriteString("#include <frameobject.h>\n")
		} else {
			b.WriteString("#include <internal/pycore_frame.h>\n")
		}
		if l.Minor >= 14 {
			b.WriteString("#include <internal/pycore_interpframe.h>\n#include <internal/pycore_stackref.h>\n")
		}
		check := func(condition string, words string) {
			fmt.Fprintf(&b, "_Static_assert(%s, \"%s\");\n", condition, words)
		}
		for name, offset := range fields(l) {
			check(fmt.Sprintf("offsetof(%s) == %d", name, offset), name)
		}
		check(fmt.Sprintf("sizeof(PyASCIIObject) == %d", l.Text.ASCII), "ASCII")
		check(fmt.Sprintf("sizeof(PyCompactUnicodeObject) == %d", l.Text.Compact), "Compact")
		check("sizeof(((PyCodeObject *)0)->co_firstlineno) == 4", "line")
		if l.Minor >= 12 {
			check("sizeof(((PyCodeObject *)0)->co_version) == 4", "version")
			owner := "FRAME_OWNED_BY_CSTACK"
			if l.Minor >= 14 {
				owner = "FRAME_OWNED_BY_INTERPRETER"
				check(fmt.Sprintf("Py_TAG_REFCNT <= %d && Py_INT_TAG == %d", CodeTag, CodeTag), "tag")
			}
			check(fmt.Sprintf("%s == %d", owner, OwnerC), "owner")
		}
		source := filepath.Join(t.TempDir(), "layout.c")
		must.Do(t, os.WriteFile(source, []byte(b.String()), 0o600))
		// Debian's pyconfig.h includes that of the processor: for arm64 the one that is here has to do.
		folder := filepath.Dir(source)
		for _, arch := range []string{"x86_64", "aarch64"} {
			here := filepath.Join(filepath.Dir(include), "x86_64-linux-gnu", filepath.Base(include))
			there := filepath.Join(folder, arch+"-linux-gnu", filepath.Base(include))
			must.Do(t, errors.Join(os.Mkdir(filepath.Dir(there), 0o700), os.Symlink(here, there)))
		}
		for _, compiler := range []string{"gcc", "aarch64-linux-gnu-gcc"} {
			if _, err := exec.LookPath(compiler); err != nil {
				t.Log(err)
				continue
			}
			gcc := exec.Command(compiler, "-w", "-fsyntax-only", "-I"+folder, "-I"+include,
				"-I"+filepath.Join(include, "internal"), source)
			if out, err := gcc.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", compiler, err, out)
			}
		}
	})
}
