package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/browser/chromiumtest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A timelinePage is the timeline of a page in a browser.
type timelinePage struct {
	*chromiumtest.Page
	t *testing.T
}

// openTimeline opens a page, with a fragment or "".
func openTimeline(t *testing.T, b *chromiumtest.Browser, path, fragment string) *timelinePage {
	t.Helper()
	p := &timelinePage{b.Open("file://" + path + fragment), t}
	p.Size(1104, 900)
	return p
}

func (p *timelinePage) text(id string) string {
	p.t.Helper()
	s, _ := p.Eval(fmt.Sprintf("document.getElementById('tl-%s').textContent", id)).(string)
	return s
}

// key presses a key in the timeline.
func (p *timelinePage) key(name string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`document.getElementById('tl-canvas').dispatchEvent(
		new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true}))`, name))
}

// search looks for a name and goes to the first place.
func (p *timelinePage) search(name string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`{const s = document.getElementById('tl-search'); s.value = %q;
		s.dispatchEvent(new Event('input')); document.getElementById('tl-next').click()}`, name))
}

// view is the view that the address has once it is kept, which is later than a change.
func (p *timelinePage) view() (fragment string, from, to float64) {
	p.t.Helper()
	fragment, _ = p.Eval("new Promise((done) => setTimeout(() => done(location.hash), 300))").(string)
	if _, err := fmt.Sscanf(fragment, "#t=%f,%f", &from, &to); err != nil || from >= to {
		p.t.Fatalf("the address has the view %q", fragment)
	}
	return fragment, from, to
}

// place is where the canvas is.
func (p *timelinePage) place() (left, top, width, height float64) {
	p.t.Helper()
	box, _ := p.Eval(`(() => {document.getElementById('timeline').scrollIntoView();
		const b = document.getElementById('tl-canvas').getBoundingClientRect();
		return [b.x, b.y, b.width, b.height]})()`).([]any)
	number := func(i int) float64 { v, _ := box[i].(float64); return v }
	return number(0), number(1), number(2), number(3)
}

func (p *timelinePage) move(x, y float64) {
	p.t.Helper()
	p.Mouse(input.DispatchMouseEventParams{Type: "mouseMoved", X: x, Y: y})
}

func (p *timelinePage) drag(x, y, toX float64, modifiers int64) {
	p.t.Helper()
	for _, e := range []input.DispatchMouseEventParams{
		{Type: "mousePressed", X: x, Y: y, Buttons: 1}, {Type: "mouseMoved", X: toX, Y: y, Buttons: 1},
		{Type: "mouseReleased", X: toX, Y: y},
	} {
		e.Button, e.ClickCount, e.Modifiers = "left", 1, modifiers
		p.Mouse(e)
	}
}

// quiet checks that the page has said and asked for nothing.
func (p *timelinePage) quiet(path string) {
	p.t.Helper()
	h := p.Heard()
	if len(h.Console) > 0 {
		p.t.Errorf("the console has %q", h.Console)
	}
	for _, url := range h.Requests {
		if !strings.HasPrefix(url, "file://"+path) && !strings.HasPrefix(url, "data:") {
			p.t.Errorf("the page asks for %s", url)
		}
	}
}

// The timeline of a page zooms, moves, finds names, selects calls with their GPU work, sums a time, shows findings, and
// keeps the view in the address. It says nothing and asks for nothing.
func TestReportTimeline(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, nil)
	path := reportOf(t, "ranks.html", gpuLogs([]string{"ranks/loader-rank0", "ranks/loader-rank3"})...)
	p := openTimeline(t, b, path, "")
	if p.Eval("document.getElementById('timeline').hidden") != false {
		t.Fatal("there is no timeline")
	}
	p.key("w")
	_, from, to := p.view()
	p.key("w")
	_, from1, to1 := p.view()
	if to1-from1 > 0.8*(to-from) || from1 < from || to1 > to {
		t.Errorf("after zooming in the view is %g to %g, before %g to %g", from1, to1, from, to)
	}
	p.key("d")
	_, from2, to2 := p.view()
	if from2 <= from1 || to2-from2-(to1-from1) > 2 {
		t.Errorf("after moving the view is %g to %g, before %g to %g", from2, to2, from1, to1)
	}
	left, top, width, _ := p.place()
	p.drag(left+width/2, top+200, left+width/2+100, 0)
	_, from3, _ := p.view()
	if from3 >= from2 {
		t.Errorf("after dragging to the right the view begins at %g, before at %g", from3, from2)
	}
	p.Mouse(input.DispatchMouseEventParams{
		Type: "mouseWheel", X: left + width/2, Y: top + 200, DeltaX: 0.1, DeltaY: -100, Modifiers: 2})
	_, from4, to4 := p.view()
	if to4-from4 >= to2-from2 {
		t.Errorf("after the wheel the view is %g to %g", from4, to4)
	}

	p.search("ncclDevKernel_AllReduce")
	if got := p.text("count"); !regexp.MustCompile(`^\d+ of \d+$`).MatchString(got) {
		t.Errorf("the search says %q", got)
	}
	got := p.text("details")
	if !strings.HasPrefix(got, "ncclDevKernel_AllReduce_Sum_f32_RING_LL") || !strings.Contains(got, "grid ") ||
		!strings.Contains(got, "its call: cuLaunchKernelEx") {
		t.Errorf("the kernel that was found says %q", got)
	}
	at, from, to := p.view()
	var row int
	var start float64
	if _, err := fmt.Sscanf(regexp.MustCompile(`&s=.*`).FindString(at), "&s=%d,%f", &row, &start); err != nil {
		t.Fatalf("%q has no slice: %v", at, err)
	}
	p.key("l")
	if got := p.text("details"); !strings.HasPrefix(got, "cuLaunchKernelEx") || !strings.Contains(got, "ranks.py:") {
		t.Errorf("the call of the kernel says %q", got)
	}
	p.key("Escape")

	again := openTimeline(t, b, path, at)
	if got := again.text("details"); !strings.HasPrefix(got, "ncclDevKernel_AllReduce") {
		t.Errorf("the page at %s has selected %q", at, got)
	}
	again.quiet(path)
	left, top, width, height := again.place()
	const gutter = 150
	x := left + gutter + (start-from)/(to-from)*(width-gutter) + 2
	y := top + 48
	for ; y < top+height && !strings.HasPrefix(again.text("tip"), "ncclAllReduce"); y += 5 {
		again.move(x, y)
	}
	if got := again.text("tip"); !strings.Contains(got, "launched by cuLaunchKernelEx") {
		t.Errorf("the tooltip of the kernel says %q", got)
	}
	again.key("Escape")
	again.drag(x, y-5, x, 0)
	if got := again.text("details"); !strings.HasPrefix(got, "ncclDevKernel_AllReduce") {
		t.Errorf("a click on the kernel selects %q", got)
	}
	again.drag(left+200, y-5, left+width-20, 8)
	sums := regexp.MustCompile(`rank 0: python3.12, GPU 0\d.* %, .*ncclAllReduce.*outside of CUDA`)
	if got := again.text("sums"); !sums.MatchString(got) {
		t.Errorf("the sums of a time are %q", got)
	}

	// The sums of the whole run are those of 'cudatrace stats --with-startup'.
	p.key("0")
	p.key("r")
	sums = regexp.MustCompile(`GPU 0\d.* %, 158 ms, 779 ×.*418 ms  cuLibraryLoadData.*GPU 1.* %, 30\.3 ms, 779 ×`)
	if got := p.text("sums"); !sums.MatchString(got) {
		t.Errorf("the sums of the run are %q", got)
	}
	p.key("Escape")

	p.Eval("document.querySelector('#findings button.show').click()")
	if got := p.text("details"); !strings.HasPrefix(got, "blocked") || !strings.Contains(got, "rank 3") {
		t.Errorf("the finding leads to %q", got)
	}
	at, from, to = p.view()
	var since, until float64
	mark := regexp.MustCompile(`&m=.*`).FindString(at)
	if _, err := fmt.Sscanf(mark, "&m=%f,%f", &since, &until); err != nil || since < from || until > to ||
		until-since < 5e6 || until-since > 12e6 {
		t.Errorf("the finding leads to %s: %v", at, err)
	}
	p.Eval("document.querySelector('#kernels tr[data-find] button.show').click()")
	want, _ := p.Eval("document.querySelector('#kernels tr[data-find]').dataset.find").(string)
	if got := p.text("details"); want == "" || !strings.HasPrefix(got, want) {
		t.Errorf("the kernel %v leads to %q", want, got)
	}
	p.Eval("document.querySelector('#idle .leads').dispatchEvent(new Event('click'))")
	p.view()
	// A click on the map of steps and ranks, or keys there, lead to the step.
	p.Eval("document.querySelector('#ranks svg').scrollIntoView()")
	cell := func(column, row float64) (x, y, at float64) {
		place, _ := p.Eval(fmt.Sprintf(`(() => {
			const m = JSON.parse(document.getElementById('timeline-data').textContent).map;
			const box = document.querySelector('#ranks svg').getBoundingClientRect(), scale = box.width / 1040;
			return [box.x + (m.left + %g * m.width) * scale, box.y + (m.top + %g * m.height) * scale, m.steps[%[1]g - 0.5][0]];
		})()`, column, row)).([]any)
		return place[0].(float64), place[1].(float64), place[2].(float64)
	}
	x, y, since = cell(7.5, 1.5)
	p.drag(x, y, x, 0)
	if at, from, to = p.view(); !strings.Contains(at, fmt.Sprintf("&m=%.0f,", since)) || since < from || to-from > 40e6 {
		t.Errorf("step 7 begins at %.0f, and leads to %s", since, at)
	}
	if got := p.text("details"); !strings.Contains(got, "rank 3") {
		t.Errorf("a step of rank 3 leads to %q", got)
	}
	_, _, since = cell(8.5, 0.5)
	for _, key := range []string{"ArrowRight", "ArrowUp", "Enter"} {
		p.Eval(fmt.Sprintf(`document.querySelector('#ranks svg').dispatchEvent(
			new KeyboardEvent('keydown', {key: %q}))`, key))
	}
	if at, _, _ = p.view(); !strings.Contains(at, fmt.Sprintf("&m=%.0f,", since)) {
		t.Errorf("step 8 begins at %.0f, and leads to %s", since, at)
	}
	// A click on a frame of the flame graph gives it the whole width.
	width, _ = p.Eval(`(() => {
		const all = [...document.querySelectorAll('#flame g.frame')];
		const of = all.find((g) => g.dataset.name.includes('ranks.py:78 train_step'));
		of.dispatchEvent(new MouseEvent('click', {bubbles: true}));
		return +of.querySelector('rect').getAttribute('width');
	})()`).(float64)
	if width < 1000 {
		t.Errorf("a frame that was clicked is %g wide", width)
	}
	// A click on the memory over time says who held it then.
	said, _ := p.Eval(`(() => {
		const all = [...document.querySelectorAll('#held rect.moment')];
		all.reduce((a, b) => b.getBBox().width > a.getBBox().width ? b : a).dispatchEvent(new MouseEvent('click', {bubbles: true}));
		return document.querySelector('#held svg + p').innerText;
	})()`).(string)
	if !strings.HasPrefix(said, "6.380960 s: 246.0 MiB held\n196.0 MiB /home/ann/train/testdata/gpu/ranks.py:21 <module>\n") {
		t.Errorf("a click on a moment says %q", said)
	}
	p.quiet(path)
}

// The flame graph by operator stands in the place of that by line when its button is clicked, and zooms by itself.
func TestReportFlames(t *testing.T) {
	t.Parallel()
	path := reportOf(t, "operators.html", gpuLogs([]string{"operators"})...)
	p := openTimeline(t, chromiumtest.Start(t, nil), path, "")
	shown := func() string {
		t.Helper()
		s, _ := p.Eval(`['flame', 'operators'].filter((id) => document.getElementById(id).offsetHeight > 0).join(' ')`).(string)
		return s
	}
	if got := shown(); got != "flame" {
		t.Errorf("at first the page shows %q", got)
	}
	p.Eval(`document.querySelector('#flame h2 button').click()`)
	if got := shown(); got != "operators" {
		t.Errorf("by operator the page shows %q", got)
	}
	// All time of aten::mm is in the backward pass, below a module, and a click gives its node the whole width.
	got, _ := p.Eval(`(() => {
		const frames = [...document.querySelectorAll('#operators g.frame')], at = (f, by) => +f.dataset[by];
		const of = frames.find((f) => f.dataset.name === 'AddmmBackward0');
		const around = frames.filter((f) => at(f, 'd') < at(of, 'd') && at(f, 'x') <= at(of, 'x') + 1e-6 &&
			at(f, 'x') + at(f, 'w') >= at(of, 'x') + at(of, 'w') - 1e-6);
		of.dispatchEvent(new MouseEvent('click', {bubbles: true}));
		const below = frames.filter((f) => f.getAttribute('display') === 'inline' && at(f, 'd') === at(of, 'd') + 1);
		return [around.map((f) => f.dataset.name).join(' '), below.map((f) => f.dataset.name).join(' '),
			+of.querySelector('rect').getAttribute('width') > 1000].join('; ');
	})()`).(string)
	if want := "backward Model.forward Block.forward Linear.forward; aten::mm aten::sum; true"; got != want {
		t.Errorf("around AddmmBackward0, below it, and whether it has the whole width: %q, want %q", got, want)
	}
	p.Eval(`document.querySelector('#operators h2 button').click()`)
	if got := shown(); got != "flame" {
		t.Errorf("by line the page shows %q", got)
	}
	p.quiet(path)
}

// The sums of a time that is partly kept are those of what is kept: its blank times are not idle. A search goes back from
// the view, and a pinch stays when one finger is lifted.
func TestReportTimelinePartlyKept(t *testing.T) {
	t.Parallel()
	path := reportOf(t, "train.html", gpuLogs([]string{"train"})...)
	p := openTimeline(t, chromiumtest.Start(t, nil), path, "#t=5200000000,5300000000")
	p.key("r")
	m := regexp.MustCompile(`Of this time ([\d.]+) ms are kept call by call.*GPU 0([\d.]+) %, ([\d.]+) ms, `).
		FindStringSubmatch(p.text("sums"))
	var kept, share, busy float64
	if _, err := fmt.Sscan(strings.Join(m[min(1, len(m)):], " "), &kept, &share, &busy); err != nil ||
		kept > 30 || math.Abs(share-100*busy/kept) > 0.5 {
		t.Errorf("the sums are %q: %v", p.text("sums"), err)
	}
	if got := p.text("sums"); strings.Contains(got, "call not known") {
		t.Errorf("blank times count: %q", got)
	}
	p.Eval(`[...document.querySelectorAll('#run tr[data-t]')].find((r) => r.cells[0].textContent.startsWith('step 40 ')).
		querySelector('.show').click()`)
	if got := p.text("details"); !strings.HasPrefix(got, "Call by call, this page has nothing of 5.") {
		t.Errorf("a step that is not kept says %q", got)
	}
	p.key("0")
	p.Eval(`{const s = document.getElementById('tl-search'); s.value = 'cudaLaunchKernel';
		s.dispatchEvent(new Event('input')); document.getElementById('tl-prev').click()}`)
	if m := regexp.MustCompile(`^([\d,]+) of ([\d,]+)$`).FindStringSubmatch(p.text("count")); m == nil || m[1] != m[2] {
		t.Errorf("back from the beginning is %q", p.text("count"))
	}
	p.Eval(`{const c = document.getElementById('tl-canvas'), box = c.getBoundingClientRect();
		c.setPointerCapture = () => {};
		for (const [type, id, x] of [['down', 8, 400], ['down', 9, 500], ['move', 8, 300], ['move', 9, 600], ['up', 9, 600]]) {
			c.dispatchEvent(new PointerEvent('pointer' + type, {pointerId: id, pointerType: 'touch', clientX: box.x + x,
				clientY: box.y + 100}));
		}}`)
	_, from, to := p.view()
	p.Eval(`{const c = document.getElementById('tl-canvas'), box = c.getBoundingClientRect();
		c.dispatchEvent(new PointerEvent('pointermove', {pointerId: 8, pointerType: 'touch', clientX: box.x + 310,
			clientY: box.y + 100}))}`)
	_, from1, to1 := p.view()
	if apart := (to1 - from1) / (to - from); math.Abs(apart-1) > 0.01 || from1 >= from {
		t.Errorf("the view was %g to %g, and is %g to %g after a finger was lifted", from, to, from1, to1)
	}
	p.quiet(path)
}

// The page of many launches is small, has the moments that matter, and is there at once. CUDATRACE_LAUNCHES is their
// number.
func TestReportManyLaunches(t *testing.T) {
	t.Parallel()
	n := must.Get(strconv.Atoi(cmp.Or(os.Getenv("CUDATRACE_LAUNCHES"), "50000")))(t)
	log := filepath.Join(t.TempDir(), "many.cudatrace")
	f := must.Get(os.Create(log))(t)
	logtest.WriteLaunches(t, f, n)
	must.Do(t, f.Close())
	path := reportOf(t, "many.html", log)
	if info, err := os.Stat(path); err != nil || info.Size() > maxReport {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
	p := openTimeline(t, chromiumtest.Start(t, nil), path, "")
	t.Logf("usable after %v ms", p.Eval("performance.getEntriesByType('navigation')[0].domInteractive"))
	if n, _ := p.Eval("document.querySelectorAll('#tl-moments option:not([value=\"\"])').length").(float64); n < 3 {
		t.Errorf("%v moments", n)
	}
	p.search("vectorized")
	if got := p.text("details"); !strings.Contains(got, "its call: cu") {
		t.Errorf("the kernel that was found says %q", got)
	}
	if text := p.text("moments"); strings.Contains(text, "whole run only") {
		t.Errorf("moments that are not there: %s", text)
	}
	p.quiet(path)
}

// Names of a traced program stay texts in the timeline, its tooltips and its data.
func TestReportTimelineHostile(t *testing.T) {
	t.Parallel()
	b := chromiumtest.Start(t, nil)
	dir := t.TempDir()
	log, path := filepath.Join(dir, "evil.cudatrace"), filepath.Join(dir, "evil.html")
	namedLogAt(t, log, injection)
	succeed(t, "report", log, "-o", path)
	p := openTimeline(t, b, path, "")
	p.search("onerror")
	p.key("ArrowDown")
	if got := p.text("details"); !strings.Contains(got, injection[:40]) {
		t.Errorf("a hostile name is shown as %q", got)
	}
	left, top, width, height := p.place()
	seen := false
	for y := top + 48; y < top+height; y += 5 {
		for x := left + 150; x < left+width; x += 60 {
			p.move(x, y)
		}
		seen = seen || strings.Contains(p.text("tip"), injection[:40])
	}
	if !seen {
		t.Error("no tooltip has a hostile name")
	}
	p.key("r")
	if p.Eval("document.owned === undefined && document.scripts.length === 2 && document.images.length === 0") != true {
		t.Error("a name became markup")
	}
	p.quiet(path)
}

// A page for paper and mail has no script, and all charts.
func TestReportStatic(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile(reportOf(t, "r.html", append(gpuLogs([]string{"train"}), "--static")...)))(t)
	if m := regexp.MustCompile(`(?i)<script|script-src|<button|<canvas`).Find(content); m != nil {
		t.Errorf("the page has %q", m)
	}
	if n := strings.Count(string(content), `class="chart"`); n < 4 {
		t.Errorf("the page has %d charts", n)
	}
}
