package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

//go:embed chart.css
var chartStyle string

// Sizes of a chart, in the pixels of a page that is wide enough.
const (
	chartWidth = 1040
	labelWidth = 150 // of the names of rows
	charWidth  = 6.4 // of a character of a text, about

	legendWidth = 6 // of a character of a legend
)

// A drawing is an SVG that grows. Every text goes through text or hover: names come from traced programs.
type drawing struct {
	under  strings.Builder // what lies under everything else: tracks, and then the lines of the axis
	b      strings.Builder
	height float64
}

// escaped makes a text safe in SVG. XML has no form at all for most control characters.
func escaped(s string) string { return html.EscapeString(figures.Clean(s)) }

// px writes a length.
func px(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// track draws the ground of a row.
func (d *drawing) track(x, y, w, h float64) {
	fmt.Fprintf(&d.under, `<rect class="track" x="%s" y="%s" width="%s" height="%s"/>`+"\n", px(x), px(y), px(w), px(h))
}

// rect draws a rectangle, with a text that appears where the mouse is, "" for none.
func (d *drawing) rect(class string, x, y, w, h float64, hover string) {
	fmt.Fprintf(&d.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"`, class, px(x), px(y), px(w), px(h))
	if hover == "" {
		d.b.WriteString("/>\n")
		return
	}
	fmt.Fprintf(&d.b, "><title>%s</title></rect>\n", escaped(figures.Cut(hover, maxTableText)))
}

// maxHover is the number of characters of a text in a drawing.
const maxHover = 120

// text writes a text that begins at a place.
func (d *drawing) text(class string, x, y float64, s string) {
	s = escaped(figures.Cut(s, maxHover))
	fmt.Fprintf(&d.b, `<text class="%s" x="%s" y="%s">%s</text>`+"\n", class, px(x), px(y), s)
}

// lead begins a group, which leads to the timeline of a page that has one.
func (d *drawing) lead(find, at string) {
	d.b.WriteString("<g")
	if find != "" && len(find) <= figures.LongText {
		fmt.Fprintf(&d.b, ` data-find="%s"`, escaped(find))
	}
	if at != "" {
		fmt.Fprintf(&d.b, ` data-t="%s"`, at)
	}
	d.b.WriteString(">\n")
}

// hover writes a text, and another one that appears where the mouse is; "" for none.
func (d *drawing) hover(class string, x, y float64, s, hover string) {
	if hover == "" || hover == s {
		d.text(class, x, y, s)
		return
	}
	fmt.Fprintf(&d.b, `<text class="%s" x="%s" y="%s">%s<title>%s</title></text>`+"\n",
		class, px(x), px(y), escaped(s), escaped(figures.Cut(hover, figures.LongText)))
}

// label writes a text that is cut to a width.
func (d *drawing) label(class string, x, y, width float64, s string) {
	d.text(class, x, y, figures.Cut(s, max(int(width/charWidth), 1)))
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&d.b, `<line class="%s" x1="%s" y1="%s" x2="%s" y2="%s"/>`+"\n", class, px(x1), px(y1), px(x2), px(y2))
}

func (d *drawing) path(class, data string) {
	fmt.Fprintf(&d.b, `<path class="%s" d="%s"/>`+"\n", class, data)
}

// legend writes what colours mean, from the right edge of a chart to the left.
func (d *drawing) legend(y float64, list []legend) {
	x := float64(chartWidth)
	for i := len(list) - 1; i >= 0; i-- {
		x -= float64(len([]rune(list[i].text)))*legendWidth + 8
		d.text("t2", x, y, list[i].text)
		x -= 15
		d.rect(list[i].class, x, y-9, 10, 10, "")
		x -= 8
	}
}

// A legend is a colour and what it means.
type legend struct{ class, text string }

// write writes the drawing. A drawing alone brings its colours along.
func (d *drawing) write(w io.Writer, title string, alone bool) error {
	style := ""
	if alone {
		style = "<style>" + chartStyle + "</style>\n"
	}
	const form = `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %d %s" role="img" aria-label="%s">`
	_, err := fmt.Fprintf(w, form+"\n%s%s%s</svg>\n",
		chartWidth, px(d.height), escaped(figures.Cut(title, maxHover)), style, d.under.String(), d.b.String())
	return err
}

// A scale maps times to places. The time before the knee may have less room than it takes.
type scale struct {
	from, to uint64
	x, width float64
	knee     uint64
	before   float64 // width of the time before the knee; 0 without one
}

func (s scale) at(t uint64) float64 {
	t = min(max(t, s.from), s.to)
	from, x, width := s.from, s.x, s.width
	switch {
	case s.before > 0 && t < s.knee:
		return x + float64(t-from)/float64(s.knee-from)*s.before
	case s.before > 0:
		from, x, width = s.knee, x+s.before, width-s.before
	}
	return x + float64(t-from)/float64(max(s.to-from, 1))*width
}

// bend gives the time before the knee less room.
func (s *scale) bend(knee uint64, before float64) {
	if knee > s.from && knee < s.to && s.at(knee)-s.x > before {
		s.knee, s.before = knee, before
	}
}

// ticks are round times between two, in ns, about as many as a number.
func ticks(from, to uint64, about int) (list []uint64) {
	if to <= from {
		return []uint64{from}
	}
	step := niceStep(float64(to-from) / float64(about))
	for i := math.Ceil(float64(from) / step); i*step <= float64(to); i++ {
		list = append(list, uint64(i*step))
	}
	return list
}

// niceStep is the next of 1, 2, 5, 10 and so on.
func niceStep(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= v {
			return m * unit
		}
	}
	return 10 * unit
}

// axis draws the times below a chart, from zero on, which lies at a time of the scale; behind its knee, if it has one.
func (d *drawing) axis(s scale, top, bottom float64, zero uint64) {
	first := max(s.from, zero)
	if s.before > 0 {
		first = s.knee
		x := s.at(s.from)
		d.text("t2", x, bottom+15, table.Words(float64(s.from-min(zero, s.from)), table.Duration))
	}
	list := ticks(first-zero, s.to-zero, 8)
	unit, name := 1e9, "s"
	switch last := s.to - zero; {
	case last < 2e6:
		unit, name = 1e3, "µs"
	case last < 2e9:
		unit, name = 1e6, "ms"
	}
	digits := 0
	if len(list) > 1 {
		digits = max(0, int(math.Ceil(-math.Log10(float64(list[1]-list[0])/unit)-1e-9)))
	}
	for _, t := range list {
		x := s.at(zero + t)
		fmt.Fprintf(&d.under, `<line class="grid" x1="%s" y1="%s" x2="%[1]s" y2="%[3]s"/>`+"\n", px(x), px(top), px(bottom))
		d.text("t2 mid", x, bottom+15, strconv.FormatFloat(float64(t)/unit, 'f', digits, 64)+" "+name)
	}
}
