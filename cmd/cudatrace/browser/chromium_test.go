package browser

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/browser/chromiumtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// received is what the stand-in for the UI has got.
type received struct {
	Title, FileName, SHA256, Hash, Origin string
	Bytes                                 int
	Error                                 string
}

// standIn speaks the UI's part of the handshake: it answers PING when its document is complete, to the
// window that opened it, and takes one trace. With an address of a trace it fetches that trace. It
// reports what it got to its server.
const standIn = `<!doctype html><title>stand-in</title><script>
'use strict';
const report = async (buffer, more) => {
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', buffer));
  const hex = Array.from(sum, (b) => b.toString(16).padStart(2, '0')).join('');
  send({bytes: buffer.byteLength, sha256: hex, hash: location.hash, ...more});
};
const send = (what) => fetch('/received', {method: 'POST', body: JSON.stringify(what)});
const take = (event) => {
  if (document.readyState !== 'complete' || event.source !== window.opener) return;
  if (event.data === 'PING') {
    event.source.postMessage('PONG', '*');
    return;
  }
  window.removeEventListener('message', take);
  const {buffer, title, fileName} = event.data.perfetto;
  report(buffer, {title, fileName, origin: event.origin});
};
const url = new URLSearchParams(location.hash.replace('#!/?', '')).get('url');
if (url) fetch(url).then((r) => r.arrayBuffer()).then((b) => report(b, {}), (e) => send({error: String(e)}));
else window.addEventListener('message', take);
</script>`

// startStandIn serves the stand-in, at an origin of its own.
func startStandIn(t *testing.T) (address string, got chan received) {
	t.Helper()
	got = make(chan received, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			var what received
			if err := json.NewDecoder(r.Body).Decode(&what); err != nil {
				what.Error = err.Error()
			}
			got <- what
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if _, err := w.Write([]byte(standIn)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, got
}

// next waits for a value. Its limit decides only how long a test that fails takes.
func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(3 * time.Minute):
		t.Fatal("nothing came in 3 minutes")
	}
	return v
}

// serving listens, and serves until the test ends; ended gets the result.
func serving(t *testing.T, trace []byte, o Options) (s *Server, ended chan error) {
	t.Helper()
	s = must.Get(Listen(bytes.NewReader(trace), int64(len(trace)), o))(t)
	ended = make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	return s, ended
}

// redirecting is the address of the file that Launch hands to a browser.
func redirecting(t *testing.T, s *Server) string {
	t.Helper()
	path := must.Get(s.writeRedirect([]string{t.TempDir()}))(t)
	return "file://" + path
}

// someTrace is bytes that are not served in one piece.
func someTrace() []byte {
	trace := make([]byte, 5<<20+123)
	r := rand.NewChaCha8([32]byte{})
	_, _ = r.Read(trace) // never fails
	return trace
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// enabled is a promise of a button that can be clicked.
const enabled = `new Promise((done) => {
  const button = document.getElementById('open');
  const check = () => button.disabled || done(true);
  new MutationObserver(check).observe(button, {attributes: true});
  check();
})`

// shows is a promise of a state that the page shows.
func shows(text string) string {
	return `new Promise((done) => {
	const state = document.getElementById('state');
	const check = () => state.textContent.startsWith('` + text + `') && done(true);
	new MutationObserver(check).observe(state, {childList: true, characterData: true, subtree: true});
	check();
})`
}

// unanswered is a page that never answers.
const unanswered = "<!doctype html><title>another page</title>"

// The page says in its tab, and tells the program, that the browser does not reach the UI; the tab says so, too, where another page
// answers in the place of the UI. The trace is there even so.
func TestChromiumOffline(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, nil)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	another := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if _, err := io.WriteString(w, unanswered); err != nil {
			t.Error(err)
		}
	}))
	defer another.Close()
	for address, want := range map[string]string{nobody.URL: "This browser does not reach ", another.URL: ""} {
		ui := must.Get(ParseUI(address))(t)
		told := make(chan struct{}, 1)
		s, ended := serving(t, someTrace(), Options{Name: "app.pftrace", UI: ui, Patience: time.Hour, Answer: 2 * time.Second,
			Offline: "Do <this>.", Unreached: func() { told <- struct{}{} }})
		page := b.Open(s.Address())
		page.Eval(enabled)
		if err := next(t, ended); err != nil {
			t.Errorf("%s: the server: %v", address, err)
		}
		if want != "" {
			next(t, told)
		} else if len(told) > 0 {
			t.Error("a page that answers is not reached")
		}
		const warning = "document.getElementById('offline').textContent"
		if got := page.Eval(warning); want != "" && got != want+address+". Do <this>." || want == "" && got != "" {
			t.Errorf("%s: the page says %q", address, got)
		}
		if want == "" {
			page.Eval("document.getElementById('open').click()")
			page.Eval(`new Promise((done) => setInterval(() => ` + warning + ` && done(true), 10))`)
			if got := page.Eval(warning); got != address+" has not answered for 2 s. Do <this>." {
				t.Errorf("%s: the page says %q", address, got)
			}
		}
	}
}

// startup is what the address has of a view's commands.
func startup(t *testing.T, v *View) string {
	t.Helper()
	text := must.Get(json.Marshal(v.commands()))(t)
	return escaped(string(text))
}

// TestChromium: at one click, the whole trace is in the UI, with its name and the first view, and the
// server has ended by itself. Other names for this machine, and other origins, get nothing.
func TestChromium(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, map[string]any{"host-resolver-rules": "MAP foreign.test 127.0.0.1"})
	address, got := startStandIn(t)
	ui := must.Get(ParseUI(address))(t)
	trace := someTrace()
	options := Options{Name: "a <b> & “c”.pftrace", UI: ui, View: View{From: 1_000_000_000_000_000_001, To: 1_000_000_000_000_500_000, Pins: []string{"^100 %·$"}}, Patience: time.Hour, Answer: time.Minute}

	t.Run("click", func(t *testing.T) {
		s, ended := serving(t, trace, options)
		foreign := b.Open(strings.Replace(s.Address(), "127.0.0.1", "foreign.test", 1))
		if text := foreign.Eval("document.body.innerText").(string); !strings.Contains(text, "this server is 127.0.0.1") {
			t.Errorf("as foreign.test the server says %q", text)
		}
		page := b.Open(redirecting(t, s))
		if err := next(t, ended); err != nil {
			t.Errorf("the page has the trace; the server: %v", err)
		}
		page.Eval(enabled)
		page.Eval("document.getElementById('open').click()")
		want := received{Title: options.Name, FileName: options.Name, SHA256: sum(trace), Bytes: len(trace),
			Hash:   "#!/?visStart=1000000000000000001&visEnd=1000000000000500000&startupCommands=" + startup(t, &options.View),
			Origin: strings.TrimSuffix(s.Address(), "/"+s.token+"/")}
		if r := next(t, got); r != want {
			t.Errorf("the UI got %+v, want %+v", r, want)
		}
		page.Eval(shows("Perfetto has the trace"))
	})
	t.Run("folding", func(t *testing.T) {
		page := b.Open("about:blank")
		for name, want := range map[string]string{
			"CPU Scheduling": "Collapse", "All ranks": "Expand", "rank 0: python3.12 1242": "Expand", "Critical path": "Expand", "rank 1: python3.12 1251": "", "rank 10: a 7": "", "python3 1242": "Expand",
			"GPU": "Expand", "Stream 7 (default)": "", "GPU 0": "Expand", "GPU 0 · GeForce RTX 4090": "Expand", "GPU 1 · GeForce RTX 4090": "", "GPU 0 · H200 Hardware Queues": "Expand", "GPU 1 · H200 Hardware Queues": "", "Process counters": "", "Process counters, GPU 0": "", "Ranges on streams": "", "Hardware Queues": "Expand",
		} {
			script := fmt.Sprintf(`JSON.parse(decodeURIComponent(%q)).filter((c) => new RegExp(c.args[0]).test(%q)).map((c) => c.id).join()`, startup(t, new(View)), name)
			if want != "" {
				want = "dev.perfetto." + want + "TracksByRegex"
			}
			if got := page.Eval(script); got != want {
				t.Errorf("what the UI does with %s: %v, want %q", name, got, want)
			}
		}
	})
}

// The page gives the trace to the origin of the UI alone: not to another page to which the UI's address
// leads, although that answers. A UI whose tab is closed can be opened again.
func TestChromiumForeignPage(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, nil)
	address, got := startStandIn(t)
	away := httptest.NewServer(http.RedirectHandler(address, http.StatusFound))
	defer away.Close()
	ui := must.Get(ParseUI(away.URL))(t)
	s, ended := serving(t, someTrace(), Options{Name: "app.pftrace", UI: ui, Patience: time.Hour, Answer: time.Minute})
	page := b.Open(s.Address())
	page.Eval(enabled)
	if err := next(t, ended); err != nil {
		t.Error(err)
	}
	page.Eval(`window.answers = new Promise((done) => {
		window.addEventListener('message', (e) => e.data === 'PONG' && done(e.origin));
		const open = window.open;
		window.open = (url) => window.opened = open(url);
		document.getElementById('open').click();
		setInterval(() => opened.postMessage('PING', '*'), 100); // the page's own do not reach it
	}); true`)
	if of := page.Eval("answers"); of != address {
		t.Errorf("the answer is from %v", of)
	}
	page.Eval("opened.close()")
	page.Eval(shows("The tab was closed"))
	page.Eval(enabled)
	select {
	case r := <-got:
		t.Errorf("the foreign page got %+v", r)
	default:
	}
}
