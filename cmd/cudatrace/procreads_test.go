package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
)

// notRead are the files that name /proc beside a call that opens a file, and read no file below /proc by that call.
var notRead = map[string]string{
	"record/internal/cupti/armed.go":                "opens a process's root, and a folder and a page in it",
	"record/internal/cupti/locate.go":               "opens a process's root, and libraries in it",
	"record/internal/cupti/privatefolder/armed.go":  "opens a folder, and a page in it",
	"record/internal/cupti/privatefolder/folder.go": "opens folders; the path of its socket goes through a descriptor",
	"record/outfile/file.go":                        "opens folders of output",
	"record/outfile/place.go":                       "opens folders of output",
	"record/doctor/driver.go":                       "opens devices of GPUs",
	"record/internal/probe/rights.go":               "reads a file of /sys",
	"record/procfs/file.go":                         "opens a process's root, and files in it",
	"record/procfs/memory.go":                       "reads entries of pagemap, of 8 bytes each",
	"record/stuck/pipes.go":                         "lists the descriptors of processes",
	"cmd/cudatrace/stuckrecorded.go":                "opens logs that recorders write",
	"cmd/cudatrace/top/beside.go":                   "opens a terminal",
}

// openers are the functions that open a file to read it, or that read one.
var openers = []string{"os.Open", "os.OpenFile", "os.ReadFile", "ioutil.ReadFile", "unix.Open", "unix.Openat", "unix.Openat2", "syscall.Open", "os.DirFS"}

// TestReadsOfProc checks that every file below /proc is read by procfs.Read, which bounds what it reads: a file that names /proc
// opens none itself, and in the package procfs only its reader does.
func TestReadsOfProc(t *testing.T) {
	t.Parallel()
	opens, needed := 0, map[string]bool{}
	for _, path := range sources(t) {
		file := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0))(t)
		names, calls := false, []string(nil)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				names = names || n.Kind == token.STRING && (strings.Contains(n.Value, "/proc/") || n.Value == `"/proc"` || strings.Contains(n.Value, `"proc/`))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(openers, x.Name+"."+n.Sel.Name) {
					calls = append(calls, x.Name+"."+n.Sel.Name)
				}
			}
			return true
		})
		inside := filepath.Dir(path) == "record/procfs"
		switch {
		case path == "record/procfs/read.go":
			opens += len(calls)
		case path == "record/procfs/maps.go":
			if slices.ContainsFunc(calls, func(c string) bool { return c != "os.Open" && c != "os.OpenFile" }) || len(calls) != 2 {
				t.Errorf("%s opens %q: it is to open mapped files only", path, calls)
			}
		case len(calls) == 0 || !names && !inside:
		case notRead[path] != "":
			needed[path] = true
		default:
			t.Errorf("%s names /proc and calls %q: read what is below /proc by procfs.Read", path, calls)
		}
	}
	if opens == 0 {
		t.Error("the reader opens nothing: this test looks at the wrong file")
	}
	for path := range notRead {
		if !needed[path] {
			t.Errorf("%s needs no exception", path)
		}
	}
}

// waits are the files with opens that may wait, for the other end of a pipe or a process with a lease, and why none of them does
// so against a person's will.
var waits = map[string]string{
	"cmd/cudatrace/diff.go":                "a pipe that a person names, which Ctrl-C ends",
	"cmd/cudatrace/top/beside.go":          "a terminal",
	"record/outfile/outfile.go":            "a pipe that a person names, which Ctrl-C ends",
	"record/pcie.go":                       "files of /sys",
	"record/internal/probe/kerneltypes.go": "a file of /sys",
	"record/internal/probe/rights.go":      "a file of /sys",
	"record/internal/probe/uprobe.go":      "files of /sys",
	"record/procfs/read.go":                "files of /proc",
	"record/signals.go":                    "a terminal",
	"record/stuck/ranks.go":                "a pipe that a person names, which Ctrl-C ends",
}

// TestNoOpenWaits checks that a file is opened without waiting, wherever others may decide what is at its path.
func TestNoOpenWaits(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	for _, path := range sources(t) {
		text := readRepository(t, path)
		files := token.NewFileSet()
		file := must.Get(parser.ParseFile(files, filepath.Join(root, path), text, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := selected(call.Fun)
			if !ok || !slices.Contains(openers, name) {
				return true
			}
			arguments := text[files.Position(call.Lparen).Offset:files.Position(call.Rparen).Offset]
			if slices.ContainsFunc([]string{"O_NONBLOCK", "O_PATH", "O_DIRECTORY", "O_EXCL", "O_TMPFILE"}, func(flag string) bool { return strings.Contains(arguments, flag) }) {
				return true
			}
			if waits[path] == "" {
				t.Errorf("%s: %s%s) waits for the other end of a pipe, or a process with a lease on the file: add O_NONBLOCK", path, name, arguments)
			}
			needed[path] = true
			return true
		})
	}
	for path := range waits {
		if !needed[path] {
			t.Errorf("%s needs no exception", path)
		}
	}
}

// sources lists the Go files of the module that are no tests, nor for tests.
func sources(t *testing.T) []string {
	t.Helper()
	var all []string
	for path := range strings.FieldsSeq(git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*.go")) {
		ours := !strings.HasPrefix(path, "testdata/") && !strings.HasPrefix(path, "packaging/")
		if ours && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(filepath.Dir(path), "test") {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		t.Skip("this is no git repository")
	}
	return all
}

// TestBloatedProcesses records beside processes of another user whose environments have gigabytes: they cost the recorder neither
// memory nor time.
func TestBloatedProcesses(t *testing.T) {
	t.Parallel()
	for range 4 {
		attacktest.Bloated{User: attacktest.User, Bytes: 2 << 30, First: "A=1"}.Start(t, "bloated")
	}
	base := filepath.Join(t.TempDir(), "run")
	if code, out := modest(t, "record", "--no-convert", "-o", base, sim("driveronly")); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
}

// modest runs cudatrace and checks that neither it nor a process that it starts takes more than 300 MiB of memory.
func modest(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "peak")
	cmd := exec.Command("measured", append([]string{file}, args...)...)
	out, _ := cmd.CombinedOutput() // the exit code says it
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	peak, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || peak < 1<<20 || peak > 300<<20 {
		t.Errorf("cudatrace %s took %d bytes of memory (%v)", args[0], peak, err)
	}
	return exitStatusOf(cmd.ProcessState), string(out)
}

// measured is the command "measured FILE ARG...": cudatrace, which then writes to FILE how many bytes of memory it has taken at most. Who
// waits for a process cannot know that: a process inherits the peak of the one that starts it.
func measured() {
	code := run(append([]string{"cudatrace"}, os.Args[2:]...), os.Stdout, os.Stderr)
	status, err := os.ReadFile("/proc/self/status")
	var own int64
	if _, peak, ok := strings.Cut(string(status), "VmHWM:"); ok && err == nil {
		_, err = fmt.Sscan(peak, &own)
	}
	var children syscall.Rusage
	if err = errors.Join(err, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)); err == nil {
		err = os.WriteFile(os.Args[1], fmt.Append(nil, max(own, children.Maxrss)<<10), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// TestELFBombs examines a program and a process whose files say that they have 2^24 sections: neither memory nor time goes into them.
func TestELFBombs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bomb, home := filepath.Join(dir, "bomb"), filepath.Join(dir, "toolkit")
	must.Do(t, os.MkdirAll(filepath.Join(home, "lib64"), 0o700))
	attacktest.ELFBomb(t, bomb)
	attacktest.ELFBomb(t, filepath.Join(home, "lib64", "libcupti.so.13"))
	target := exec.Command(sim("told"))
	target.Env = append(os.Environ(), "CUDA_HOME="+home)
	in, err := target.StdinPipe()
	if err == nil {
		err = target.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = target.Wait() }()
	pid := fmt.Sprint(target.Process.Pid)
	for name, args := range map[string][]string{
		"doctor PROGRAM": {"doctor", bomb},
		"doctor -p":      {"doctor", "-p", pid},
		"record -p":      {"record", "-p", pid, "-d", "1ms", "-o", filepath.Join(dir, "run")},
	} {
		if code, out := modest(t, args...); code < 0 || code > 3 {
			t.Errorf("%s: exit code %d\n%s", name, code, out)
		}
	}
}

// TestForeignELF checks that only elfsym reads ELF files, of which it takes little: debug/elf makes room for whatever their headers
// say. Others use its constants.
func TestForeignELF(t *testing.T) {
	t.Parallel()
	for _, path := range sources(t) {
		text := readRepository(t, path)
		if strings.Contains(text, "elf.Open(") || strings.Contains(text, "elf.NewFile(") {
			t.Errorf("%s reads an ELF file by debug/elf: use elfsym", path)
		}
	}
}
