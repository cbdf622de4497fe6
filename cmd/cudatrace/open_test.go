package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/browser/chromiumtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// An opening is a running "cudatrace open", or a recording with --open.
type opening struct {
	*exec.Cmd
	address string
	stderr  *bufio.Reader
	temp    string // its TMPDIR
}

var pageAddress = regexp.MustCompile(`http://127\.0\.0\.1:\d+/[A-Z2-7]{26}/`)

// open starts a command in a folder, and waits until it prints an address.
func open(t *testing.T, dir string, args ...string) *opening {
	t.Helper()
	return openWith(t, nil, dir, args...)
}

// openWith sets variables of the command.
func openWith(t *testing.T, env []string, dir string, args ...string) *opening {
	t.Helper()
	o := &opening{Cmd: exec.Command("cudatrace", args...), temp: t.TempDir()}
	must.Do(t, errors.Join(os.Chmod(o.temp, 0o777), os.Chmod(filepath.Dir(o.temp), 0o755)))
	o.Dir, o.Env = dir, append(append(os.Environ(), "TMPDIR="+o.temp, "DISPLAY=", "WAYLAND_DISPLAY=", "SSH_CONNECTION=10.0.0.1 5000 10.0.0.2 2222"), env...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o.Stdout, o.Stderr, o.stderr = w, w, bufio.NewReader(r)
	must.Do(t, o.Start())
	w.Close()
	t.Cleanup(func() {
		_ = o.Process.Kill() // it has ended, unless the test failed
		r.Close()
	})
	for said := ""; o.address == ""; {
		line, err := o.stderr.ReadString('\n')
		if err != nil {
			t.Fatalf("cudatrace %s ends: %v\n%s", strings.Join(args, " "), err, said)
		}
		said += line
		o.address = pageAddress.FindString(line)
	}
	return o
}

// get takes a file of the page.
func (o *opening) get(t *testing.T, name string) []byte {
	t.Helper()
	r := must.Get(http.Get(o.address + name))(t)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%s: %s, %v", name, r.Status, err)
	}
	return b
}

// end waits for the end and returns what was said since the address.
func (o *opening) end(t *testing.T, code int) string {
	t.Helper()
	said := must.Get(io.ReadAll(o.stderr))(t)
	_ = o.Wait() // the exit code says it
	if got := o.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d\n%s", got, code, said)
	}
	if left, err := os.ReadDir(o.temp); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the temporary folder: %v", left, err)
	}
	return string(said)
}

// A log is converted as convert does it, the UI begins at its median step, and the program ends by itself.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), filepath.Join(root, "testdata/gpu/logs/streams.cudatrace")
	trace := filepath.Join(dir, "want.pftrace")
	must.Run(t, exec.Command("cudatrace", "convert", log, "-o", trace))
	want := must.Get(os.ReadFile(trace))(t)
	tr := tptest.Open(t, trace)
	step := tr.Values("select ts, dur from slice where category = 'step' order by dur desc limit 1 offset 9")[0]
	at, length := step[0].(int64), step[1].(int64)
	for _, name := range []string{log, trace} {
		o := open(t, dir, "open", name, "--ui", "http://127.0.0.1:10000/ui/")
		var about struct {
			Title, UI, Origin string
			Size              int
		}
		must.Do(t, json.Unmarshal(o.get(t, "about.json"), &about))
		title := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)) + ".pftrace"
		if about.Title != title || about.Size != len(want) || about.Origin != "http://127.0.0.1:10000" {
			t.Errorf("%s: the page is told %+v", name, about)
		}
		if from, to := viewed(t, about.UI); from != at-length || to != at+2*length {
			t.Errorf("%s: the UI is at %s; the median step is at %d", name, about.UI, at)
		}
		if !bytes.Equal(o.get(t, "trace"), want) {
			t.Errorf("%s: another trace is served than convert makes", name)
		}
		said := o.end(t, 0)
		if !regexp.MustCompile(`(?m)^  for the browser of another machine, there: ssh -p 2222 -N -L \d+:127\.0\.0\.1:\d+ \w+@10\.0\.0\.2\n`).MatchString(said) || !strings.HasSuffix(said, "cudatrace: the browser has the trace\n") {
			t.Errorf("%s: it says\n%s", name, said)
		}
	}
}

// viewed is the time at which the UI begins.
func viewed(t *testing.T, ui string) (from, to int64) {
	t.Helper()
	if _, err := fmt.Sscanf(ui[strings.Index(ui, "#"):], "#!/?visStart=%d&visEnd=%d&startupCommands=", &from, &to); err != nil {
		t.Errorf("the UI is at %s: %v", ui, err)
	}
	return from, to
}

// The UI begins where a person wants, and has a note at the finding that they want, or at the first one.
func TestOpenAt(t *testing.T) {
	t.Parallel()
	log := filepath.Join(root, "testdata/gpu/logs/train.cudatrace")
	out, err := exec.Command("cudatrace", "stats", log, "--report", "findings", "--format", "json").Output()
	var stats struct {
		Findings []struct {
			At []int64 `json:"at_ns"`
		}
	}
	if err := errors.Join(err, json.Unmarshal(out, &stats)); err != nil || len(stats.Findings) < 2 {
		t.Fatalf("%v: %s", err, out)
	}
	middle := func(args ...string) int64 {
		o := open(t, t.TempDir(), append([]string{"open", log}, args...)...)
		var about struct{ UI string }
		must.Do(t, json.Unmarshal(o.get(t, "about.json"), &about))
		o.get(t, "trace")
		o.end(t, 0)
		from, to := viewed(t, about.UI)
		if note := url.QueryEscape("finding " + map[bool]string{true: "2", false: "1"}[args[0] == "--finding"] + "\\n"); !strings.Contains(about.UI, strings.ReplaceAll(note, "+", "%20")) {
			t.Errorf("%q: the UI has no note at a finding: %s", args, about.UI)
		}
		return from + (to-from)/2
	}
	start := middle("--at", "0s")
	if got := middle("--at", "5300ms") - start; got != 5_300_000_000 {
		t.Errorf("--at 5300ms is %d ns after the start", got)
	}
	if got := middle("--finding", "2") - start; got != stats.Findings[1].At[0] {
		t.Errorf("finding 2 is %d ns after the start, want %d", got, stats.Findings[1].At[0])
	}
}

// With --offline the page of the log is served, works in a browser, and the program ends by itself.
func TestOpenOffline(t *testing.T) {
	t.Parallel()
	log := filepath.Join(root, "testdata/gpu/logs/streams.cudatrace")
	o := open(t, t.TempDir(), "open", log, "--offline")
	p := &timelinePage{chromiumtest.Start(t, nil).Open(o.address), t}
	if said := o.end(t, 0); !strings.HasSuffix(said, "cudatrace: the browser has the page\n") {
		t.Errorf("it says\n%s", said)
	}
	p.search("addOne")
	if got := p.text("details"); !strings.HasPrefix(got, "addOne") {
		t.Errorf("the kernel that was found says %q", got)
	}
	h := p.Heard()
	if len(h.Console) > 0 || len(slices.DeleteFunc(h.Requests, func(url string) bool {
		return url == o.address || strings.HasPrefix(url, "data:")
	})) > 0 {
		t.Errorf("the page says and asks %+v", h)
	}
	for _, args := range [][]string{
		{"--ui", "http://127.0.0.1/"}, {"--at", "1s"}, {"--finding", "1"}, {"--from", "1s"},
	} {
		args = append([]string{"cudatrace", "open", log, "--offline"}, args...)
		if code := run(args, io.Discard, io.Discard); code != exitUsage {
			t.Errorf("--offline %q: exit code %d", args, code)
		}
	}
}

// Ctrl-C ends the program, and the converted trace is gone.
func TestOpenInterrupted(t *testing.T) {
	t.Parallel()
	o := open(t, t.TempDir(), "open", filepath.Join(root, "testdata/gpu/logs/streams.cudatrace"))
	must.Do(t, o.Process.Signal(syscall.SIGINT))
	if said := o.end(t, 130); strings.Contains(said, "has the trace") {
		t.Errorf("it says\n%s", said)
	}
}

// With --open a recording serves its trace, and keeps the program's exit code and standard output.
func TestRecordOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := open(t, dir, "record", "--open", "-o", "run", "sh", "-c", sim("vectoradd")+"; exit 7")
	served := o.get(t, "trace")
	said := o.end(t, 7)
	if trace, err := os.ReadFile(filepath.Join(dir, "run.pftrace")); err != nil || !bytes.Equal(served, trace) {
		t.Errorf("another trace is served than run.pftrace: %v", err)
	}
	if !strings.HasSuffix(said, "cudatrace: the browser has the trace\n") {
		t.Errorf("it says\n%s", said)
	}
	cmd := exec.Command("cudatrace", "record", "--open", "-o", "none", sim("nocuda"), "3")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 || strings.Contains(string(out), "http") {
		t.Errorf("a recording without a trace: %v\n%s", err, out)
	}
}

func TestOpenPortInUse(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer l.Close()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	cmd := exec.Command("cudatrace", "open", "--port", port, "--no-browser", filepath.Join(root, "testdata/gpu/logs/streams.cudatrace"))
	out, _ := cmd.CombinedOutput() // the exit code says it
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "cudatrace: port "+port+" is in use: choose another with --port, or leave it out") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// Under sudo the log is read, and the trace is served, with the rights of the user who called sudo.
func TestOpenSudo(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	dir := must.Get(os.MkdirTemp("", "cudatrace-sudo-"))(t)
	defer os.RemoveAll(dir)
	log, err := os.ReadFile(filepath.Join(root, "testdata/gpu/logs/streams.cudatrace"))
	path := filepath.Join(dir, "streams.cudatrace")
	must.Do(t, errors.Join(err, os.WriteFile(path, log, 0o600), os.Chown(dir, 65534, 65534), os.Chown(path, 65534, 65534)))
	o := openWith(t, sudoByNobody, dir, "open", path)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", o.Process.Pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("the threads %v: %v", threads, err)
	}
	for _, thread := range threads {
		if status, err := os.ReadFile(thread); err == nil && !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") {
			t.Errorf("a thread runs as another user:\n%s", status)
		}
	}
	o.get(t, "trace")
	o.end(t, 0)
	must.Do(t, os.Chown(path, 0, 0))
	cmd := exec.Command("cudatrace", "open", "--no-browser", path)
	cmd.Env = append(os.Environ(), sudoByNobody...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("the user opens root's log: %v\n%s", err, out)
	}
}

// Where there is a display, the user's browser is started, and keeps running after Ctrl-C. What others can see of it does not tell
// the address: that is in a file of the user's alone.
func TestOpenLaunches(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "launched")
	script := "#!/bin/sh\n(cut -d' ' -f5 /proc/$$/stat; tr '\\0' ' ' </proc/$$/cmdline; env) >" + fifo + "\n"
	must.Do(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700)))
	o := openWith(t, []string{"DISPLAY=:0", "HOME=" + dir, "PATH=" + dir + ":" + os.Getenv("PATH")}, dir, "open", filepath.Join(root, "testdata/gpu/logs/streams.cudatrace"))
	launched, err := os.ReadFile(fifo)
	var group int
	var shell, name, page string
	if _, scanned := fmt.Sscan(string(launched), &group, &shell, &name, &page); err != nil || scanned != nil {
		t.Errorf("the browser is started with %q: %v", launched, errors.Join(err, scanned))
	}
	if token := strings.Split(o.address, "/")[3]; strings.Contains(string(launched), token) {
		t.Errorf("the browser is started with the secret %s: %.200q", token, launched)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), `<meta http-equiv="refresh" content="0; url=`+o.address+`">`) {
		t.Errorf("%s has %q: %v", page, text, err)
	}
	if tree := ownedTree(t, filepath.Dir(page)); !strings.HasPrefix(tree, fmt.Sprintf(" drwx------ %d:", os.Getuid())) || !strings.Contains(tree, "/open.html -rw------- ") {
		t.Errorf("the browser's folder is\n%s", tree)
	}
	if ours, err := syscall.Getpgid(o.Process.Pid); err != nil || group == ours {
		t.Errorf("the browser is in group %d, and so are we: %v", group, err)
	}
	o.get(t, "trace")
	if said := o.end(t, 0); strings.Contains(said, "ssh") {
		t.Errorf("it says\n%s", said)
	}
	if _, err := os.Stat(filepath.Dir(page)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the browser's folder is left: %v", err)
	}
}
