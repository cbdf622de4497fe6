// Package chromiumtest drives a headless Chromium in tests.
//
// Input: addresses and JavaScript. Output: what the JavaScript results in. Chromium is told what to do
// by its DevTools protocol, over two pipes.
package chromiumtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

const remedy = "run `make tools` in the root of the repository (it installs Debian's package chromium, as root)"

// patience is the time in which Chromium has to do everything that a test asks for. It decides only how
// long a test that fails takes.
const patience = 3 * time.Minute

// A Browser is a running Chromium, which ends with the test.
type Browser struct {
	t      testing.TB
	to     *os.File
	from   *bufio.Reader
	next   int
	stderr bytes.Buffer
	heard  map[string]*Heard // by session
}

// A Page is a tab.
type Page struct {
	b       *Browser
	session string
}

// Heard is what Chromium says about a page by itself.
type Heard struct {
	Console  []string // messages of the console, errors of scripts, what was blocked
	Requests []string // addresses that were asked for
}

// Start starts Chromium. The test fails when it is missing.
func Start(t testing.TB, options ...string) *Browser {
	t.Helper()
	path := find()
	if path == "" {
		t.Fatalf("chromium is not in PATH: %s", remedy)
	}
	b := &Browser{t: t, heard: make(map[string]*Heard)}
	theirIn, ourOut, err1 := os.Pipe()
	ourIn, theirOut, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	b.to, b.from = ourOut, bufio.NewReader(ourIn)
	cmd := exec.Command(path, append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
		"--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "about:blank"}, options...)...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.Stderr = &b.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	theirIn.Close()
	theirOut.Close()
	limit := time.AfterFunc(patience, func() { ourIn.Close() })
	t.Cleanup(func() {
		limit.Stop()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // Chromium is many processes
		_ = cmd.Wait()                                      // it was killed
		ourOut.Close()
		ourIn.Close()
	})
	return b
}

// find returns the path of Chromium, "" without one.
func find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// A message is one of the DevTools protocol.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  map[string]any  `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *failure        `json:"error,omitempty"`
}

type failure struct{ Message string }

// call calls a method and reads its result.
func (b *Browser) call(session, method string, params map[string]any, result any) {
	b.t.Helper()
	b.next++
	text, err := json.Marshal(message{ID: b.next, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.fail(method, err)
	}
	m := b.wait(method, func(m *message) bool { return m.ID == b.next })
	if m.Error != nil {
		b.fail(method, errors.New(m.Error.Message))
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		b.fail(method, err)
	}
}

// wait reads messages up to one that is wanted.
func (b *Browser) wait(what string, wanted func(*message) bool) *message {
	b.t.Helper()
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			b.fail(what, err)
		}
		m := new(message)
		if err := json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), m); err != nil {
			b.fail(what, err)
		}
		b.hear(m)
		if wanted(m) {
			return m
		}
	}
}

// hear keeps what a message says about a page.
func (b *Browser) hear(m *message) {
	h := b.heard[m.Session]
	if h == nil {
		h = new(Heard)
		b.heard[m.Session] = h
	}
	switch m.Method {
	case "Network.requestWillBeSent":
		request, _ := m.Params["request"].(map[string]any)
		h.Requests = append(h.Requests, fmt.Sprint(request["url"]))
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded":
		h.Console = append(h.Console, fmt.Sprint(m.Params))
	}
}

// Heard returns what Chromium has said about the page up to now.
func (p *Page) Heard() Heard {
	p.b.t.Helper()
	p.Eval("1") // what comes before the answer was said before
	return *p.b.heard[p.session]
}

func (b *Browser) fail(what string, err error) {
	b.t.Helper()
	b.t.Fatalf("chromium: %s: %v\n%s", what, err, b.stderr.String())
}

// Open opens an address in a tab and waits until it is loaded.
func (b *Browser) Open(address string) *Page {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	p := &Page{b, session.SessionID}
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Audits"} {
		b.call(p.session, domain+".enable", nil, &struct{}{})
	}
	var done struct{ ErrorText string }
	b.call(p.session, "Page.navigate", map[string]any{"url": address}, &done)
	if done.ErrorText != "" {
		b.fail(address, errors.New(done.ErrorText))
	}
	b.wait("the end of loading "+address, func(m *message) bool { return m.Session == p.session && m.Method == "Page.loadEventFired" })
	return p
}

// Screenshot returns a picture of the whole page as PNG, for a window of a width, dark or light.
func (p *Page) Screenshot(width int, dark bool) []byte {
	p.b.t.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[dark]
	p.b.call(p.session, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, &struct{}{})
	p.b.call(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, &struct{}{})
	var picture struct{ Data []byte }
	p.b.call(p.session, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &picture)
	return picture.Data
}

// Eval evaluates JavaScript, as if a person had clicked, and returns its value, or that of its promise.
func (p *Page) Eval(script string) any {
	p.b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.b.call(p.session, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "userGesture": true, "returnByValue": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		p.b.fail(script, fmt.Errorf("%s %s", e.Text, e.Exception.Description))
	}
	return r.Result.Value
}
