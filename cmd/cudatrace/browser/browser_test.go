package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
)

var perfettoUI = UI{Address: "https://ui.perfetto.dev/", Origin: "https://ui.perfetto.dev"}

// ask sends a request as it is, and returns the answer.
func ask(t *testing.T, s *Server, text string) string {
	t.Helper()
	c := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port())))(t)
	defer c.Close()
	must.Get(io.WriteString(c, text))(t)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return string(answer)
}

// request is what a browser sends.
func requestText(method, path, host string, fields ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(fields, "\r\n"), "\r\n")
}

// Only this machine's names, the whole address and the right origin get anything; nobody gets a file
// that is not of the page.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	trace := []byte("TRACE BYTES")
	s, ended := serving(t, trace, Options{Name: "app.pftrace", UI: perfettoUI, Patience: time.Hour})
	page := "/" + s.token + "/"
	own := fmt.Sprintf("127.0.0.1:%d", s.Port())
	for name, c := range map[string]struct{ request, want string }{
		"the page":                    {requestText("GET", page, own), "200 OK"},
		"through a tunnel":            {requestText("GET", page, "localhost:8080"), "200 OK"},
		"from the page":               {requestText("GET", page+"about.json", own, "Origin: http://"+own), "200 OK"},
		"by a name that means us now": {requestText("GET", page+"trace", "foreign.test:"+fmt.Sprint(s.Port())), "403 Forbidden"},
		"by an address of the net":    {requestText("GET", page+"trace", "192.168.0.7:80"), "403 Forbidden"},
		"by a name that begins right": {requestText("GET", page+"trace", "localhost.foreign.test:80"), "403 Forbidden"},
		"by two names":                {requestText("GET", page+"trace", own, "Host: foreign.test:80"), "400 Bad Request"},
		"by no name":                  {"GET " + page + "trace HTTP/1.0\r\n\r\n", "403 Forbidden"},
		"without a port":              {requestText("GET", page+"trace", "localhost"), "403 Forbidden"},
		"from a page of another":      {requestText("GET", page+"trace", own, "Origin: https://foreign.test"), "403 Forbidden"},
		"from the UI":                 {requestText("GET", page+"trace", own, "Origin: https://ui.perfetto.dev"), "403 Forbidden"},
		"from no origin":              {requestText("GET", page+"trace", own, "Origin: null"), "403 Forbidden"},
		"from two origins":            {requestText("GET", page+"trace", own, "Origin: http://"+own, "Origin: https://foreign.test"), "403 Forbidden"},
		"the root":                    {requestText("GET", "/", own), "404 Not Found"},
		"the trace, without token":    {requestText("GET", "/trace", own), "404 Not Found"},
		"with another token":          {requestText("GET", "/"+strings.Repeat("A", len(s.token))+"/trace", own), "404 Not Found"},
		"with half the token":         {requestText("GET", "/"+s.token[:10]+"/trace", own), "404 Not Found"},
		"another file":                {requestText("GET", page+"../../../etc/passwd", own), "404 Not Found"},
		"another file, by its path":   {requestText("GET", page+"/etc/passwd", own), "404 Not Found"},
		"a file of the program":       {requestText("GET", page+"page/index.html", own), "404 Not Found"},
		"changed":                     {requestText("DELETE", page+"trace", own), "405 Method Not Allowed"},
		"asked before":                {requestText("OPTIONS", page+"trace", own), "405 Method Not Allowed"},
		"as a proxy":                  {requestText("GET", "http://foreign.test/", own), "403 Forbidden"},
		"with a body":                 {requestText("GET", page+"trace", own, "Content-Length: 3") + "abc", "400 Bad Request"},
		"with another body":           {requestText("GET", page+"trace", own, "Transfer-Encoding: chunked"), "400 Bad Request"},
		"in another language":         {"HELO me\r\n\r\n", "400 Bad Request"},
		"without an end":              {"GET / HTTP/1.1\r\nA: " + strings.Repeat("a", 2*headBytes), "431 Request Header Fields Too Large"},
	} {
		answer := ask(t, s, c.request)
		if _, status, _ := strings.Cut(answer, " "); !strings.HasPrefix(status, c.want+"\r\n") {
			t.Errorf("%s: the answer is %q, want %s", name, answer, c.want)
		}
		if strings.HasSuffix(answer, "\r\n\r\n"+c.want) {
			continue // no request for net/http
		}
		if strings.Contains(answer, string(trace)) || strings.Contains(answer, "Access-Control") {
			t.Errorf("%s: the answer has too much: %q", name, answer)
		}
		for _, field := range []string{"Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff"} {
			if !strings.Contains(answer, "\r\n"+field+"\r\n") {
				t.Errorf("%s: the answer lacks %s", name, field)
			}
		}
	}
	if answer := ask(t, s, requestText("GET", page+"trace", own, "Origin: http://"+own)); !strings.HasSuffix(answer, "\r\n\r\n"+string(trace)) {
		t.Errorf("the page gets %q", answer)
	}
	if err := next(t, ended); err != nil {
		t.Errorf("the trace was taken; the server: %v", err)
	}
	if _, err := s.door.Listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the port is open still: %v", err)
	}
}

func TestNobody(t *testing.T) {
	t.Parallel()
	_, ended := serving(t, nil, Options{UI: perfettoUI, Patience: 1})
	if err := next(t, ended); !errors.Is(err, ErrNobody) {
		t.Errorf("nobody came: %v", err)
	}
}

// An interrupt closes connections on which nothing comes.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := must.Get(Listen(bytes.NewReader(nil), 0, Options{UI: perfettoUI, Patience: time.Hour}))(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var idle []net.Conn
	for range 2 * mostUnproven {
		c := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port())))(t)
		defer c.Close()
		idle = append(idle, c)
	}
	interrupt()
	if err := next(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v", err)
	}
	for _, c := range idle {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection got something")
		}
	}
}

// Connections that say nothing, or hold on to what they are refused, take no place from the browser, however long they may.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := must.Get(Listen(strings.NewReader("TRACE BYTES"), 11, Options{UI: perfettoUI, Patience: time.Hour}))(t)
	s.http.ReadTimeout, s.door.wait = time.Hour, time.Hour
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	own := fmt.Sprintf("127.0.0.1:%d", s.Port())
	var first net.Conn
	for i := range 3 * mostUnproven {
		c := must.Get(net.Dial("tcp", own))(t)
		defer c.Close()
		if first == nil {
			first = c
		}
		texts := []string{"", "GET", requestText("GET", "/guess/trace", own)}
		if _, err := io.WriteString(c, texts[i%len(texts)]); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err) // else it had to go already
		}
	}
	_ = first.SetReadDeadline(time.Now().Add(time.Minute)) // decides only how long a test that fails takes
	if _, err := first.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("of too many connections the first has its connection still")
	}
	client := &http.Client{Timeout: time.Minute} // likewise
	r := must.Get(client.Get(s.Address() + "trace"))(t)
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "TRACE BYTES" {
		t.Errorf("%q, %v", b, err)
	}
	if err := next(t, ended); err != nil {
		t.Error(err)
	}
}

// A connection on which no request comes ends.
func TestSlow(t *testing.T) {
	t.Parallel()
	s := must.Get(Listen(strings.NewReader(""), 0, Options{UI: perfettoUI, Patience: time.Hour}))(t)
	s.http.ReadTimeout, s.door.wait = time.Millisecond, time.Millisecond
	go func() { _ = s.Run(t.Context()) }()
	if answer := ask(t, s, "GET / HTTP/1.1\r\n"); answer != "" {
		t.Errorf("the answer is %q", answer)
	}
}

// The page that leads to the address is where a browser of a snap sees it.
func TestRedirectFolders(t *testing.T) {
	t.Parallel()
	temp, env := os.TempDir(), []string{"A=1", "HOME=/home/me", "HOMEPAGE=x"}
	for snaps, want := range map[string][]string{"/nowhere": {temp}, "/": {"/home/me", temp}} {
		if got := redirectFolders(snaps, env); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", snaps, got, want)
		}
	}
	home := t.TempDir()
	s := &Server{o: Options{UI: perfettoUI, Port: 9000, Name: "a"}, token: "TOKEN"}
	path, err := s.writeRedirect([]string{"/nowhere", home})
	if err != nil || !strings.HasPrefix(path, home) {
		t.Errorf("%s, %v", path, err)
	}
	for of, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(of); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, %v", of, info.Mode(), err)
		}
	}
	if _, err := s.writeRedirect([]string{"/nowhere"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A trace that somebody does not read to the end was not delivered.
func TestHalf(t *testing.T) {
	t.Parallel()
	trace := make([]byte, 64<<20) // more than fits into the buffers of a connection
	s, ended := serving(t, trace, Options{UI: perfettoUI, Patience: time.Hour})
	client := &http.Client{Timeout: 3 * time.Minute}
	r, err := client.Get(s.Address() + "trace")
	if err != nil {
		t.Fatal(err)
	}
	must.Get(io.CopyN(io.Discard, r.Body, 1<<20))(t)
	r.Body.Close()
	r, err = client.Get(s.Address() + "trace") // the server is there still
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r.Body); err != nil || n != int64(len(trace)) {
		t.Errorf("%d bytes: %v", n, err)
	}
	r.Body.Close()
	if err := next(t, ended); err != nil {
		t.Error(err)
	}
}

// The file that is served becomes shorter, or cannot be read.
func TestBroken(t *testing.T) {
	t.Parallel()
	file := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	file.Close()
	for want, trace := range map[string]io.ReaderAt{
		"app cannot be read: it became shorter meanwhile": strings.NewReader("short"),
		"app cannot be read: ":                            file,
	} {
		s := must.Get(Listen(trace, 1000, Options{Name: "app", UI: perfettoUI, Patience: time.Hour}))(t)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context()) }()
		r, err := http.Get(s.Address() + "trace")
		if err == nil {
			if n, err := io.Copy(io.Discard, r.Body); err == nil {
				t.Errorf("%d bytes arrived, and no error", n)
			}
			r.Body.Close()
		}
		if err := next(t, ended); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the server: %v, want %s", err, want)
		}
	}
}

func TestParseUI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]UI{
		"https://ui.perfetto.dev":          perfettoUI,
		"https://ui.perfetto.dev/":         perfettoUI,
		"HTTPS://UI.perfetto.dev:443":      perfettoUI,
		"http://127.0.0.1:10000":           {Address: "http://127.0.0.1:10000/", Origin: "http://127.0.0.1:10000"},
		"http://[::1]:80/":                 {Address: "http://[::1]/", Origin: "http://[::1]"},
		"https://perf.example/ui/v53/":     {Address: "https://perf.example/ui/v53/", Origin: "https://perf.example"},
		"https://perf.example:8443/a b":    {Address: "https://perf.example:8443/a%20b", Origin: "https://perf.example:8443"},
		"https://perf.example:8443/x.html": {Address: "https://perf.example:8443/x.html", Origin: "https://perf.example:8443"},
	} {
		if got, err := ParseUI(text); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "ui.perfetto.dev", "javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b/", "https://me@host/",
		"https://host/?x", "https://host/#!/x", "https://höst/", "https://host:port/", "https://host\r\nX: y/", "ftp://host/"} {
		if got, err := ParseUI(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A UI in a folder is served beside the trace, which it fetches, to whoever has the token. Files outside of the folder
// are not. Once the browser has the trace, the UI is served on.
func TestFolderUI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{
		filepath.Join(dir, "index.html"): "<p>UI", filepath.Join(dir, "v1", "engine.wasm"): "\x00asm", outside: "SECRET",
	} {
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		must.Do(t, errors.Join(err, os.WriteFile(name, []byte(text), 0o600)))
	}
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "link")))
	ui, err := FindUI(dir)
	if err != nil || ui != (UI{Folder: dir}) {
		t.Fatalf("%+v, %v", ui, err)
	}
	if other, err := FindUI(filepath.Join(dir, "v1")); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("a folder without a UI: %+v, %v", other, err)
	}
	delivered := make(chan bool, 1)
	ctx, stop := context.WithCancel(t.Context())
	o := Options{Name: "my app.pftrace", UI: ui, View: View{From: 1, To: 2}, Patience: time.Hour}
	o.Delivered = func() { delivered <- true }
	s := must.Get(Listen(strings.NewReader("TRACE"), 5, o))(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	page, own, secret := "/"+s.token+"/", fmt.Sprintf("127.0.0.1:%d", s.Port()), filepath.Base(filepath.Dir(outside))
	want := "http://" + own + page + "#!/?url=http%3A%2F%2F" + url.QueryEscape(own+page)
	if want += "trace%2Fmy_app.pftrace&visStart=1&visEnd=2&"; !strings.HasPrefix(s.Address(), want) {
		t.Errorf("the address is %s, want %s", s.Address(), want)
	}
	get := func(path string, head ...string) string { return ask(t, s, requestText("GET", path, own, head...)) }
	for name, c := range map[string]struct{ answer, status, has string }{
		"its page":                {get(page), "200 OK", "text/html"},
		"a file":                  {get(page + "v1/engine.wasm"), "200 OK", "application/wasm"},
		"no file":                 {get(page + "v2/engine.wasm"), "404 Not Found", ""},
		"a folder":                {get(page + "v1"), "404 Not Found", ""},
		"outside":                 {get(page + "link"), "404 Not Found", ""},
		"outside, by its path":    {get(page + "../" + secret + "/secret"), "404 Not Found", ""},
		"without the token":       {get("/v1/engine.wasm"), "404 Not Found", ""},
		"for a page of another":   {get(page+"v1/engine.wasm", "Origin: https://foreign.test"), "403 Forbidden", ""},
		"the trace, for another":  {get(page+"trace/my_app.pftrace", "Origin: https://foreign.test"), "403 Forbidden", ""},
		"the trace, for its page": {get(page + "trace/my_app.pftrace"), "200 OK", "\r\n\r\nTRACE"},
		"written":                 {ask(t, s, requestText("PUT", page+"index.html", own)), "405 Method Not Allowed", ""},
	} {
		if !strings.HasPrefix(c.answer, "HTTP/1.1 "+c.status+"\r\n") || !strings.Contains(c.answer, c.has) ||
			strings.Contains(c.answer, "SECRET") {
			t.Errorf("%s: %q", name, c.answer)
		}
	}
	next(t, delivered)
	if got := get(page); !strings.HasSuffix(got, "<p>UI") {
		t.Errorf("after the trace: %q", got)
	}
	stop()
	if err := next(t, ended); err != nil {
		t.Errorf("ended by a signal after the trace: %v", err)
	}
}

// allowed are commands that Perfetto's UI does at its start: ui/src/core/startup_command_allowlist.ts of google/perfetto at
// v55.3 and v58.2, those that both have. It leaves out others, and says so in the browser's console only.
var allowed = []string{"dev.perfetto.PinTracksByRegex", "dev.perfetto.ExpandTracksByRegex", "dev.perfetto.CollapseTracksByRegex",
	"dev.perfetto.AddNoteAtTimestamp", "dev.perfetto.CreateWorkspace", "dev.perfetto.CopyTracksToWorkspaceByRegex"}

// The UI gets commands that it takes, in the order of the tracks, and asks nothing; a time is a text.
func TestStartupCommands(t *testing.T) {
	t.Parallel()
	v := View{From: 1, To: 2, Pins: []string{"^steps$", "^a > b$"}, Notes: []Note{{1 << 62, "here & \"there\""}}}
	_, text, _ := strings.Cut(perfettoUI.address(v, ""), "startupCommands=")
	text, err := url.QueryUnescape(text)
	var got []struct {
		ID   string
		Args []string
	}
	if err := errors.Join(err, json.Unmarshal([]byte(text), &got)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	want := [][]string{{"PinTracksByRegex", "^steps$", "name"}, {"PinTracksByRegex", "^a > b$", "name"},
		{"AddNoteAtTimestamp", "4611686018427387904", "here & \"there\""}}
	if len(got) != len(folding)+len(want) {
		t.Fatalf("%d commands: %s", len(got), text)
	}
	for i, c := range got {
		if !slices.Contains(allowed, c.ID) {
			t.Errorf("the UI does not take %s at its start", c.ID)
		}
		if k := i - len(folding); k >= 0 && !slices.Equal(append([]string{strings.TrimPrefix(c.ID, "dev.perfetto.")}, c.Args...), want[k]) {
			t.Errorf("command %d is %+v, want %q", i, c, want[k])
		}
	}
}
