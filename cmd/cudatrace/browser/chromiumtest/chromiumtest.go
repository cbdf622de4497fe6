// Package chromiumtest drives a headless Chromium in tests.
//
// Input: addresses and JavaScript. Output: what the JavaScript results in.
package chromiumtest

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/cudatrace/cudatrace/record/must"
)

const remedy = "run `make tools` in the root of the repository (it installs Debian's package chromium, as root)"

// patience is the time in which Chromium has to do everything that a test asks for. It decides only how
// long a test that fails takes.
const patience = 3 * time.Minute

// A Browser is a running Chromium, which ends with the test.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// A Page is a tab.
type Page struct {
	t     testing.TB
	ctx   context.Context
	mu    sync.Mutex
	heard Heard
}

// Heard is what Chromium says about a page by itself.
type Heard struct {
	Console  []string // messages of the console, errors of scripts, what was blocked
	Requests []string // addresses that were asked for
}

// Start starts Chromium, with an option NAME=VALUE of its command line for each of options. The test fails when it is
// missing.
func Start(t testing.TB, options map[string]any) *Browser {
	t.Helper()
	path := find()
	if path == "" {
		t.Fatalf("chromium is not in PATH: %s", remedy)
	}
	temporary := must.Get(os.MkdirTemp("", "chromium"))(t) // Chromium leaves a folder in it
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Env("TMPDIR="+temporary), chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-component-update", true))
	for name, value := range options {
		all = append(all, chromedp.Flag(name, value))
	}
	ctx, end := context.WithTimeout(context.Background(), patience)
	ctx, endProcess := chromedp.NewExecAllocator(ctx, all...)
	ctx, endBrowser := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		endBrowser()
		endProcess()
		chromedp.FromContext(ctx).Allocator.Wait()
		end()
		_ = os.RemoveAll(temporary) // a helper of Chromium's may still end
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return &Browser{t, ctx}
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

// hear keeps what an event says about a page.
func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.heard.Requests = append(p.heard.Requests, e.Request.URL)
	case *runtime.EventConsoleAPICalled, *runtime.EventExceptionThrown, *log.EventEntryAdded, *audits.EventIssueAdded:
		text, err := json.Marshal(e)
		if err != nil {
			text = []byte(err.Error())
		}
		p.heard.Console = append(p.heard.Console, string(text))
	}
}

// Heard returns what Chromium has said about the page up to now.
func (p *Page) Heard() Heard {
	p.t.Helper()
	p.Eval("1") // what comes before the answer was said before
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// call calls a command of the DevTools protocol.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.t.Fatalf("chromium: %s: %v", command.Method, err)
	}
	return r
}

// Open opens an address in a tab and waits until it is loaded.
func (b *Browser) Open(address string) *Page {
	b.t.Helper()
	p := &Page{t: b.t}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithListener(p.hear))
	b.t.Cleanup(end)
	p.ctx = ctx
	call(p, audits.Enable, cdp.Empty{}) // chromedp enables the other domains
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatalf("chromium: %s: %v", address, err)
	}
	return p
}

// Eval evaluates JavaScript, as if a person had clicked, and returns its value, or that of its promise.
func (p *Page) Eval(script string) (value any) {
	p.t.Helper()
	yes := true
	r := call(p, runtime.Evaluate, runtime.EvaluateParams{
		Expression: script, AwaitPromise: &yes, UserGesture: &yes, ReturnByValue: &yes})
	if e := r.ExceptionDetails; e != nil {
		p.t.Fatalf("chromium: %s: %v", script, e)
	}
	if len(r.Result.Value) > 0 {
		if err := json.Unmarshal(r.Result.Value, &value); err != nil {
			p.t.Fatalf("chromium: %s: %v", script, err)
		}
	}
	return value
}

// Mouse moves the mouse, presses a button or turns the wheel.
func (p *Page) Mouse(e input.DispatchMouseEventParams) {
	p.t.Helper()
	call(p, input.DispatchMouseEvent, e)
}

// Size gives the page a size in pixels.
func (p *Page) Size(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1})
}
