package logtext

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// plainView names nothing.
func plainView() *View {
	return &View{
		Begin:    1000,
		Names:    func(string, string) func(uint64) string { return nil },
		Result:   func(string, int32) string { return "" },
		Demangle: func(name string) string { return "demangled " + name },
		Text:     func(text string) string { return text },
	}
}

func TestViewedTimes(t *testing.T) {
	t.Parallel()
	v := View{Begin: 5_000_000_000}
	for at, want := range map[uint64]string{
		0: "unknown", 1: "-4.999999999s", 4_999_999_999: "-0.000000001s", 5_000_000_000: "0.000000000s",
		5_387_291_439: "0.387291439s", 1<<64 - 1: "18446744068.709551615s",
	} {
		if got := string(v.appendTime(nil, at)); got != want {
			t.Errorf("time %d is %s, want %s", at, got, want)
		}
	}
	for ns, want := range map[uint64]string{
		0: "0ns", 999: "999ns", 1000: "1us", 2900: "2.9us", 1_000_001: "1.000001ms", 90_000_000: "90ms",
		1_000_000_000: "1s", 61_000_000_010: "61.00000001s",
	} {
		if got := string(appendDuration(nil, ns)); got != want {
			t.Errorf("duration %d is %s, want %s", ns, got, want)
		}
	}
}

// In any log, also a damaged one, a view has the records of the raw form, one a line, and with
// references no others and no fewer events.
func TestViewHasAllRecords(t *testing.T) {
	t.Parallel()
	logs := seeds(t)
	logs["hostile"] = hostileLog(t, kinds()...)
	for name, log := range logs {
		size := int64(len(log))
		read := func() *tracelog.Reader {
			r, err := tracelog.NewReader(bytes.NewReader(log), size, name)
			if err != nil {
				return nil
			}
			return r
		}
		if read() == nil {
			continue
		}
		refs, err := Refer(read(), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw, viewed, only := lineKinds(t, read(), Options{}), lineKinds(t, read(), Options{View: plainView()}), lineKinds(t, read(), Options{View: plainView(), Only: refs})
		for kind, n := range raw {
			if viewed[kind] != n {
				t.Errorf("%s: %d %s records of %d", name, viewed[kind], kind, n)
			}
			if k, ok := tracelog.KindByName(kind); ok && only[kind] != n && !defines[k] || only[kind] > n {
				t.Errorf("%s: %d %s records of %d with references", name, only[kind], kind, n)
			}
		}
	}
}

// defines has the kinds that References limit.
var defines = map[tracelog.Kind]bool{
	tracelog.KindFunction: true, tracelog.KindProcess: true, tracelog.KindThread: true, tracelog.KindDevice: true, tracelog.KindContext: true,
	tracelog.KindStream: true, tracelog.KindName: true, tracelog.KindSymbol: true, tracelog.KindCaller: true, tracelog.KindCUPTI: true,
	tracelog.KindMetricSet: true, tracelog.KindMetric: true,
}

// lineKinds counts the lines of a dump by their first word.
func lineKinds(t *testing.T, r *tracelog.Reader, o Options) map[string]int {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Dump(&b, r, o))
	kinds := make(map[string]int)
	for line := range strings.Lines(b.String()) {
		kind, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		kinds[kind]++
	}
	return kinds
}

// A log that refers to very many things keeps all its definitions.
func TestReferencesAreBounded(t *testing.T) {
	t.Parallel()
	refs := &References{things: make(map[thing]bool)}
	for i := range uint64(maxReferences + 10) {
		refs.refer(tracelog.KindCaller, 0, 0, i)
	}
	if !refs.full || len(refs.things) > maxReferences {
		t.Errorf("%d things, full %t", len(refs.things), refs.full)
	}
}
