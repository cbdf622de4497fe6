package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/must"
)

// sudoByNobody is what sudo sets for the user nobody.
var sudoByNobody = []string{"SUDO_UID=65534", "SUDO_GID=65534", "SUDO_USER=nobody"}

// ownedTree lists what is below a folder: each file and folder with its mode, its owner and its content.
func ownedTree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		if info.Mode().IsRegular() {
			text, err = os.ReadFile(path)
		}
		s := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d %.50q\n", strings.TrimPrefix(path, dir), info.Mode(), s.Uid, s.Gid, text)
		return err
	}))
	return b.String()
}

// TestSudoOutput names files of root's, in a folder that only root can change, as the output of each command under sudo: nothing
// there is replaced, made or given away. Root without sudo writes there.
func TestSudoOutput(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	log := must.Get(filepath.Abs(gpuLog))(t)
	whole := must.Get(os.ReadFile(log))(t)
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.cudatrace")
	if err := os.WriteFile(cut, whole[:len(whole)/2], 0o600); err != nil { // root alone may read it
		t.Fatal(err)
	}
	program := sim("driveronly")
	target := exec.Command(sim("told"))
	in, err := target.StdinPipe()
	if err == nil {
		err = target.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = target.Wait() })
	commands := map[string][]string{
		"convert":         {"convert", log, "-o", "etc/passwd"},
		"convert damaged": {"convert", cut, "-o", "etc/passwd"},
		"chrome":          {"convert", log, "--format", "chrome", "-o", "etc/passwd"},
		"chrome, folder":  {"convert", log, "--format", "chrome", "-o", "etc/folder/"},
		"parquet":         {"convert", log, "--format", "parquet", "-o", "etc/folder"},
		"special":         {"convert", log, "-o", "etc/pipe"},
		"report":          {"report", log, "-o", "etc/passwd"},
		"repair":          {"repair", cut, "-o", "etc/passwd"},
		"record":          {"record", "-o", "etc/run", program},
		"record %q":       {"record", "-o", "%q{WHERE}", program},
		"record %p":       {"record", "-o", "etc/run-%p", program},
		"record --last":   {"record", "--last", "1s", "-o", "etc/run", program},
		"record --live":   {"record", "--live", "-o", "etc/run", program},
		"record -p":       {"record", "-p", fmt.Sprint(target.Process.Pid), "-d", "1ms", "-o", "etc/run"},
		"top":             {"top", "-o", "etc/run", "--", program},
		"watch":           {"watch", "-p", "1", "-o", "etc/run/windows"},
		"man":             {"man", "-o", "etc"},
		"stats":           {"stats", log, "--format", "csv", "-o", "etc/folder"},
	}
	tested := map[string]bool{}
	for _, command := range commands {
		tested[command[0]] = true
	}
	for _, c := range newApp(console.New(io.Discard, io.Discard)).Commands {
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return f.Names()[0] == "output" }) && !tested[c.Name] {
			t.Errorf("%s writes files: it lacks a row", c.Name)
		}
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			there := filepath.Join(t.TempDir(), "etc")
			must.Do(t, errors.Join(
				os.Mkdir(there, 0o755), os.Mkdir(filepath.Join(there, "folder"), 0o755),
				syscall.Mkfifo(filepath.Join(there, "pipe"), 0o600),
				os.WriteFile(filepath.Join(there, "passwd"), []byte("precious"), 0o600),
				os.WriteFile(filepath.Join(there, "run.cudatrace"), []byte("precious"), 0o600),
				os.WriteFile(filepath.Join(there, "cudatrace.1"), []byte("precious"), 0o600),
			))
			openWay(t, there)
			before := ownedTree(t, there)
			cmd := exec.Command("cudatrace", command...)
			cmd.Dir = filepath.Dir(there)
			cmd.Env = append(append(os.Environ(), "WHERE=etc/run"), sudoByNobody...)
			out, err := cmd.CombinedOutput()
			why := func(words string) bool { return strings.Contains(string(out), words) }
			if err == nil || !why("no permission") && !why("permission denied") && !why("belongs to user 0") {
				t.Errorf("it ends with %v:\n%s", err, out)
			}
			if after := ownedTree(t, there); after != before {
				t.Errorf("there was\n%s\nand is\n%s\n%s", before, after, out)
			}
		})
		t.Run(name+", in a folder of the user", func(t *testing.T) {
			t.Parallel()
			there := filepath.Join(t.TempDir(), "etc")
			must.Do(t, errors.Join(os.Mkdir(there, 0o755), syscall.Mkfifo(filepath.Join(there, "pipe"), 0o600), os.Chown(there, 65534, 65534)))
			openWay(t, there)
			cmd := exec.Command("cudatrace", command...)
			cmd.Dir = filepath.Dir(there)
			cmd.Env = append(append(os.Environ(), "WHERE=etc/run"), sudoByNobody...)
			out, _ := cmd.CombinedOutput() // the files show what became of it
			after := strings.Split(strings.TrimSpace(ownedTree(t, there)), "\n")
			if strings.Contains(command[len(command)-1], "pipe") != (len(after) == 2) {
				t.Errorf("there is %q\n%s", after, out)
			}
			for _, line := range after {
				if !strings.HasPrefix(line, "/pipe ") && !strings.Contains(line, " 65534:65534 ") {
					t.Errorf("%s\n%s", line, out)
				}
			}
		})
	}
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		there := t.TempDir()
		cmd := exec.Command("cudatrace", "convert", log, "-o", "passwd")
		cmd.Dir = there
		cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SUDO_") })
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(ownedTree(t, there), "/passwd -rw-r--r-- 0:0") {
			t.Errorf("%v\n%s%s", err, out, ownedTree(t, there))
		}
	})
}

// openWay lets every user enter the folders that lead to a temporary one.
func openWay(t *testing.T, dir string) {
	t.Helper()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode().Perm()|0o055)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A log that only root may read is converted under sudo, into a file of the user who called it.
func TestSudoInput(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	text := must.Get(os.ReadFile(gpuLog))(t)
	closed, open := t.TempDir(), t.TempDir()
	openWay(t, open)
	log := filepath.Join(closed, "streams.cudatrace")
	must.Do(t, errors.Join(os.WriteFile(log, text, 0o600), os.Chmod(closed, 0o700), os.Chown(open, 65534, 65534)))
	for _, args := range [][]string{{log}, {"-"}} {
		cmd := exec.Command("cudatrace", append([]string{"convert", "-o", "x.pftrace"}, args...)...)
		cmd.Dir, cmd.Env = open, append(append(os.Environ(), "TMPDIR="+open), sudoByNobody...)
		cmd.Stdin = strings.NewReader(string(text))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(ownedTree(t, open), "/x.pftrace -rw-r--r-- 65534:65534") {
			t.Errorf("%v\n%s%s", err, out, ownedTree(t, open))
		}
	}
}

// changers are the functions that make, change or remove what has a name.
var changers = []string{
	"os.Create", "os.CreateTemp", "os.MkdirTemp", "os.WriteFile", "os.Mkdir", "os.MkdirAll", "os.Rename", "os.Remove", "os.RemoveAll", "os.Chown",
	"os.Lchown", "os.Chmod", "os.Symlink", "os.Link", "os.Truncate", "os.Chtimes", "unix.Mkdir", "unix.Mkdirat", "unix.Unlink", "unix.Unlinkat",
	"unix.Rename", "unix.Renameat", "unix.Renameat2", "unix.Link", "unix.Linkat", "unix.Symlink", "unix.Symlinkat", "unix.Chmod", "unix.Fchmod",
	"unix.Fchmodat", "unix.Chown", "unix.Lchown", "unix.Fchown", "unix.Fchownat", "unix.Mkfifo", "unix.Mknod", "unix.Rmdir", "unix.Truncate",
}

// writes are the flags with which an opener makes or changes what has a name.
var writes = regexp.MustCompile(`\bO_(CREAT|CREATE|TMPFILE|WRONLY|RDWR|TRUNC|APPEND)\b`)

// changes are the files and folders that may call a changer beside a function that is given to invoker.Do, with the reason.
var changes = map[string]string{
	"record/outfile":                      "its tests say that it works with the rights of the user who called sudo",
	"record/internal/cupti/privatefolder": "root makes the folder of the injected library, and hands it to the program's user",
	"record/internal/cupti/armed.go":      "its claim on a folder is given to invoker.Do as a whole",
	"cmd/cudatrace/conversion.go":         "its own process's file below /proc",
	"cmd/cudatrace/top/beside.go":         "its own process's file below /proc",
	"cmd/cudatrace/browser":               "open has become the user who called sudo",
	"cmd/cudatrace/console/output.go":     "convert gives the function to invoker.Do as a whole; top looks at its own descriptor",
	"cmd/cudatrace/man.go":                "the function is given to invoker.Do as a whole",
	"record/tracelog/internal/recordgen":  "a tool of the build",
}

// TestChangesAsInvoker checks that whatever makes, changes or removes a file for a person does so with the rights of the user who
// called sudo: in a function that is given to invoker.Do.
func TestChangesAsInvoker(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	for _, path := range sources(t) {
		text, files := readRepository(t, path), token.NewFileSet()
		file := must.Get(parser.ParseFile(files, filepath.Join(root, path), text, 0))(t)
		opensToWrite := func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			return ok && writes.MatchString(text[files.Position(call.Lparen).Offset:files.Position(call.Rparen).Offset])
		}
		var within []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				within = within[:len(within)-1]
				return true
			}
			within = append(within, n)
			name, _ := selected(n)
			if opener := slices.Contains(openers, name) && opensToWrite(within[len(within)-2]); !opener && !slices.Contains(changers, name) || slices.ContainsFunc(within, isDo) {
				return true
			}
			for _, known := range []string{path, filepath.Dir(path)} {
				if changes[known] != "" {
					needed[known] = true
					return true
				}
			}
			t.Errorf("%s calls %s outside a function that is given to invoker.Do", path, name)
			return true
		})
	}
	for path := range changes {
		if !needed[path] {
			t.Errorf("%s needs no exception", path)
		}
	}
}

// selected is the name of a function of a package, "os.Remove".
func selected(n ast.Node) (name string, ok bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return x.Name + "." + s.Sel.Name, true
}

// isDo reports whether a node is a call of a method Do.
func isDo(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Do"
}
