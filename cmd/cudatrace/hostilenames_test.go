package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// hostileName clears a terminal, renames its window, turns the direction of writing around, has
// control characters of 7 and of 8 bits, and a line that looks like one of ours.
const hostileName = "x\x1b]0;renamed\x07\x1b[2J\u202eesrever\u2066\u200f\u061c\u009b31m\x9b31m\x7f\b\r\t\U000e0041\ncudatrace: nothing lost"

// hostileLog writes a log with the hostile name wherever a text can stand.
func hostileLog(t *testing.T, path string) { namedLogAt(t, path, hostileName) }

// namedLogAt writes a log with a name wherever a text can stand.
func namedLogAt(t *testing.T, path, name string) {
	t.Helper()
	w := must.Get(createLog(path))(t)
	text := `
meta key=program value=@
meta key=args value=@
meta key=host value=@
meta key=kernel value=@
meta key=cudatrace value=@
meta key=@ value=@
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
function id=1 name=@ library=driver args="@:handle b:i32"
function id=2 name=cuLaunchKernel library=@ args=f:handle
process pid=12 ppid=11 start=1000 exe=@ args=@
thread pid=12 tid=12 name=@
device pid=12 id=0 name=@ uuid=@ major=9 minor=0
context pid=12 id=1 device=0 null_stream=7
stream pid=12 context=1 id=7 priority=0
name pid=12 object_kind=5 id=7 context=1 name=@
symbol pid=12 time=1400 handle=0x10 name=@
caller id=1 function=@ module=@ build_id=@ address=0x10 symbol=@ symbol_offset=1
cupti pid=12 version=130001 driver_version=13000 path=@ status=@
call pid=12 tid=12 func=#1 enter=1500 dur=100 ret=2 caller=1 args: a=0x1 b=2
call pid=12 tid=12 func=#2 enter=1700 dur=100 ret=999 args: f=0x10
api pid=12 tid=12 domain=1 cbid=307 name=@ start=1710 dur=40 correlation=1 ret=0 caller=1
kernel pid=12 device=0 context=1 stream=7 correlation=1 start=2000 dur=3000 name=@ grid_x=1 grid_y=1 grid_z=1 block_x=1 block_y=1 block_z=1
marker pid=12 tid=12 flags=0x2 id=1 time=1600 name=@ domain=@
lost pid=12 cause=@ count=17 from=2000 to=3000
note time=2500 pid=12 severity=1 text=@
process_end pid=12 time=9000 status=1 complete=0 kernels=5 reason=@
end time=9999 complete=0 reason=@
`
	end, err := logtext.Assemble(strings.NewReader(strings.NewReplacer(`"@:`, `"a:`, "@", strconv.Quote(name)).Replace(text)), w)
	if err == nil {
		err = w.Close(end)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkShown fails for output that has more than what people can see and line breaks, or a line
// of the hostile name.
func checkShown(t *testing.T, what string, out []byte) {
	t.Helper()
	for rest := out; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 || r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s has %q at byte %d: %q", what, rest[:n], len(out)-len(rest), out)
			return
		}
		rest = rest[n:]
	}
	if bytes.Contains(append([]byte("\n"), out...), []byte("\ncudatrace: nothing lost")) {
		t.Errorf("%s has a line of the hostile name: %q", what, out)
	}
}

// TestHostileNames gives every command a log, a path and arguments that are commands to a
// terminal. None of them gets there.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.ReplaceAll(hostileName, "/", ""))
	must.Do(t, os.Mkdir(dir, 0o755))
	log, cut, out := filepath.Join(dir, "x.cudatrace"), filepath.Join(dir, "cut.cudatrace"), filepath.Join(dir, "out")
	hostileLog(t, log)
	whole := must.Get(os.ReadFile(log))(t)
	must.Do(t, os.WriteFile(cut, whole[:len(whole)-len(whole)/4], 0o600))
	lines := [][]string{
		{"info", log}, {"info", "--format", "json", log}, {"info", cut}, {"info", hostileName}, {"info", "--format", hostileName, log},
		{"dump", log}, {"dump", "--format", "ndjson", log}, {"dump", cut}, {"dump", "--kind", hostileName, log},
		{"dump", "--from", hostileName, log}, {"dump", "--pid", hostileName, log},
		{"convert", log, "-o", out}, {"convert", cut, "-o", out}, {"convert", log, log}, {"convert", log, cut, "-o", out},
		{"convert", log, "-o", dir}, {"convert", log, "-o", out, "--name", hostileName},
		{"convert", log, "--min-duration", hostileName},
		{"convert", "--" + hostileName, log}, {"convert", hostileName}, {"convert", "--compress", hostileName, log},
		{"diff", log, cut}, {"diff", log, log, "--format", "json"}, {"diff", cut, log, "--format", "markdown", "--fail-on", "calls:* > 0"},
		{"diff", log, cut, "--format", "junit", "--fail-on", "kernel:*:total > +0", "--significance", "none"}, {"diff", log, hostileName},
		{"diff", log, log, "--fail-on", hostileName}, {"diff", log, log, "--budget", hostileName}, {"diff", log, log, "--budget", log},
		{"repair", log}, {"repair", cut, "-o", out}, {"repair", hostileName},
		{"probes", "--probe", hostileName}, {"probes", "--api", hostileName}, {"version", hostileName},
		{hostileName}, {"--" + hostileName}, {"help", hostileName},
		{"record", "./" + hostileName}, {"record", "-p", hostileName}, {"record", "-d", hostileName, "true"}, {"record", "--calls", hostileName, "true"},
	}
	for _, args := range lines {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"cudatrace"}, args...), &stdout, &stderr)
		what := fmt.Sprintf("%.60q", args)
		checkShown(t, "standard output of "+what, stdout.Bytes())
		checkShown(t, "standard error of "+what, stderr.Bytes())
		if stdout.Len()+stderr.Len() == 0 && code != 0 {
			t.Errorf("%s says nothing", what)
		}
	}
}

// TestHostileNamesStay: the name is escaped, not lost.
func TestHostileNamesStay(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "x.cudatrace")
	hostileLog(t, log)
	var stdout, stderr bytes.Buffer
	run([]string{"cudatrace", "info", "--format", "json", log}, &stdout, &stderr)
	var sum struct{ Host string }
	if err := json.Unmarshal(stdout.Bytes(), &sum); err != nil || sum.Host != strings.ToValidUTF8(hostileName, "\ufffd") {
		t.Errorf("info's JSON has the host %q, %v", sum.Host, err)
	}
	if said := stderr.String(); !strings.Contains(said, `x\u001b]0;renamed\u0007\u001b[2J\u202eesrever`) {
		t.Errorf("info says %q", said)
	}
}

// TestHostileProgram records a program with a hostile name, and a running process that has taken
// one.
func TestHostileProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), hostileName)
	copyProgram(t, "/bin/sleep", path)
	running := exec.Command(path, "600")
	must.Do(t, running.Start())
	defer func() {
		running.Process.Kill()
		running.Wait()
	}()
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	run([]string{"cudatrace", "record", "-d", "1ms", "-o", filepath.Join(dir, "x"), "-p", strconv.Itoa(running.Process.Pid)}, &stdout, &stderr)
	checkShown(t, "record -p", stderr.Bytes())
	stderr.Reset()
	run([]string{"cudatrace", "record", "-o", filepath.Join(dir, "y"), path, "0"}, &stdout, &stderr)
	checkShown(t, "record", stderr.Bytes())
	if !strings.Contains(stderr.String(), `\u001b[2J`) {
		t.Errorf("record says %q", &stderr)
	}
}

// TestOneConsole: nothing but package console writes to standard output or standard error. The
// program that is recorded has them as they are.
func TestOneConsole(t *testing.T) {
	t.Parallel()
	mayName := map[string][]string{ // files that may name os.Stdin and so on, and one that discards what net/http logs
		"cmd/cudatrace/main.go":            {"Stdout", "Stderr"},
		"cmd/cudatrace/logs.go":            {"Stdin"},
		"cmd/cudatrace/browser/browser.go": {"import log"},
		"record/program.go":                {"Stdin", "Stdout", "Stderr"},
	}
	files := 0
	for _, folder := range []string{"bpf", "cmd", "convert", "perfetto", "record"} {
		for _, path := range goFiles(t, folder) {
			if strings.HasSuffix(path, "_test.go") || forTests(filepath.Dir(path)) || strings.Contains(path, "/internal/recordgen/") {
				continue
			}
			files++
			for _, found := range printing(t, path, strings.HasPrefix(path, "cmd/cudatrace/") && !strings.Contains(path, "/console/")) {
				if !slices.Contains(mayName[path], strings.TrimPrefix(found, "os.")) {
					t.Errorf("%s has %s: print by package console", path, found)
				}
			}
		}
	}
	if files < 100 {
		t.Errorf("%d files were looked at", files)
	}
}

// printing lists what a file has that prints. In a command that is also a call of fmt.Fprintf and
// its like.
func printing(t *testing.T, path string, command bool) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, readRepository(t, path), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range file.Imports {
		if name := strings.Trim(i.Path.Value, `"`); name == "log" || strings.HasPrefix(name, "log/") {
			found = append(found, "import "+name)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				found = append(found, f.Name)
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			switch name := x.Name + "." + n.Sel.Name; {
			case slices.Contains([]string{"os.Stdin", "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "syscall.Stdout", "syscall.Stderr"}, name),
				command && strings.HasPrefix(name, "fmt.Fprint"), command && name == "io.WriteString":
				found = append(found, name)
			}
		}
		return true
	})
	return found
}

// openTerminal opens a new pseudo-terminal.
func openTerminal(t *testing.T) (terminal, other *os.File) {
	t.Helper()
	other = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { other.Close() })
	n, err := unix.IoctlGetInt(int(other.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { terminal.Close() })
	return terminal, other
}

// TestNoBinaryToTerminal: a trace is not written to a terminal, and a log is not read from one.
func TestNoBinaryToTerminal(t *testing.T) {
	t.Parallel()
	terminal, _ := openTerminal(t)
	var stderr bytes.Buffer
	if code := run([]string{"cudatrace", "convert", gpuLog, "-o", "-"}, terminal, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "the trace is binary and standard output is a terminal") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	stderr.Reset()
	if code := run([]string{"cudatrace", "convert", gpuLog, "-o", terminal.Name()}, terminal, &stderr); code != exitUsage ||
		!strings.Contains(stderr.String(), "the trace is binary and "+terminal.Name()+" is a terminal") {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
	info := exec.Command("cudatrace", "info", "-")
	info.Stdin = terminal
	if said, err := info.CombinedOutput(); err == nil || !strings.Contains(string(said), "info: standard input is a terminal: name a log, or pipe one") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestStatusLine: the progress of a conversion is on a terminal alone, and a line that is said
// takes its place.
func TestStatusLine(t *testing.T) {
	t.Parallel()
	terminal, other := openTerminal(t)
	con := console.New(io.Discard, terminal)
	con.Status("half \x1b[2J")
	con.Say("done")
	con.ClearStatus()
	con.Say("end")
	var got []byte
	for b := make([]byte, 200); !bytes.HasSuffix(got, []byte("end\r\n")); {
		n := must.Get(other.Read(b))(t)
		got = append(got, b[:n]...)
	}
	if want := "\r\x1b[Khalf \\u001b[2J\r\x1b[Kcudatrace: done\r\ncudatrace: end\r\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
