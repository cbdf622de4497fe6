package join

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

var context = &timeline.Context{ID: 1}

// A question is for the launch of a graph at a time; 0 for none.
type question struct {
	graph uint32
	at    uint64
	want  uint32
}

// Of finds the only launch that can have been running.
func TestOf(t *testing.T) {
	t.Parallel()
	first, second := graphLaunch{Correlation: 1, Start: 100, End: 110, Stream: 7, Exec: 70}, graphLaunch{Correlation: 2, Start: 200, End: 210, Stream: 7, Exec: 70}
	other := graphLaunch{Correlation: 3, Start: 150, End: 160, Stream: 8, Exec: 80}
	tests := []struct {
		name      string
		launches  []graphLaunch
		marks     []finishMark
		questions []question
	}{
		{"the only one", []graphLaunch{first}, nil, []question{{9, 99, 0}, {9, 100, 1}, {9, 500, 1}}},
		{"several", []graphLaunch{first, second}, nil, []question{{9, 199, 1}, {9, 200, 0}, {9, 900, 0}}},
		{"in any order", []graphLaunch{second, first}, nil, []question{{9, 199, 1}, {9, 200, 0}}},
		{"behind a wait for the stream", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 110, At: 190}}, []question{{9, 150, 1}, {9, 200, 2}}},
		{"behind a wait for everything", []graphLaunch{first, second}, []finishMark{{After: 150, At: 190}}, []question{{9, 300, 2}}},
		{"behind a wait for another stream", []graphLaunch{first, second}, []finishMark{{Stream: 8, After: 150, At: 190}}, []question{{9, 300, 0}}},
		{"behind a wait that began before the launch returned", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 109, At: 190}}, []question{{9, 300, 0}}},
		{"before the end of a wait", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 120, At: 250}}, []question{{9, 240, 0}, {9, 250, 2}}},
		{"a wait that is not known yet", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 1000, At: 1001}}, []question{{9, 300, 0}}},
		{"a wait for another stream of the same handle", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 190, At: 195}, {Stream: 7, After: 120, Destroyed: true}}, []question{{9, 300, 0}}},
		{"a wait for everything, of a stream that was destroyed", []graphLaunch{first, second}, []finishMark{{After: 190, At: 195}, {Stream: 7, After: 120, Destroyed: true}}, []question{{9, 300, 2}}},
		{"of two graphs", []graphLaunch{first, other}, nil, []question{{9, 120, 1}, {5, 170, 3}}},
		{"of two graphs at once", []graphLaunch{first, other}, nil, []question{{9, 170, 0}, {5, 180, 0}}},
		{"with the graph's handle", []graphLaunch{first, other, second}, []finishMark{{Stream: 7, After: 120, At: 195}}, []question{{9, 120, 1}, {9, 300, 2}}},
		{"two records of one launch", []graphLaunch{{Correlation: 1, Start: 102, End: 108, Stream: 7}, {Correlation: 1, Start: 100, End: 110}, second}, []finishMark{{Stream: 7, After: 109, At: 190}}, []question{{9, 101, 1}, {9, 300, 0}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var l graphLaunches
			for _, x := range test.launches {
				l.addLaunch(x)
			}
			for _, m := range test.marks {
				l.mark(m)
			}
			l.advance(1000)
			for _, q := range test.questions {
				if got := l.onlyRunning(graphKey{context, q.graph}, q.at); got != q.want {
					t.Errorf("graph %d at %d is of launch %d, want %d", q.graph, q.at, got, q.want)
				}
			}
		})
	}
}

// A launch that ran is of its graph, and the graph's earlier launches had finished.
func TestRan(t *testing.T) {
	t.Parallel()
	var l graphLaunches
	a, b := graphKey{context, 1}, graphKey{context, 2}
	for i := range uint32(4) {
		l.addLaunch(graphLaunch{Correlation: i + 1, Start: uint64(i*10 + 10), End: uint64(i*10 + 15)})
	}
	l.ran(1, a, 50)
	l.ran(2, b, 50)
	l.ran(4, a, 60)
	l.ran(9, a, 60)
	l.passed(50)
	if got := l.onlyRunning(a, 59); got != 0 {
		t.Errorf("of launches 1, 3 and 4 it is %d", got)
	}
	if l.passed(60); len(l.list) != 3 {
		t.Errorf("%d launches may be running, want 3", len(l.list))
	}
	if got := l.onlyRunning(b, 70); got != 0 {
		t.Errorf("of launches 2 and 3 it is %d", got)
	}
}

// Beyond its limits nothing is certain, and nothing is kept.
func TestLimits(t *testing.T) {
	t.Parallel()
	var l graphLaunches
	for i := range uint32(maxGraphRuns) {
		l.addLaunch(graphLaunch{Correlation: i + 1, Start: uint64(i)*10 + 10, End: uint64(i)*10 + 15})
	}
	if got := l.onlyRunning(graphKey{context, 1}, 12); got != 1 || len(l.list) != maxGraphRuns {
		t.Fatalf("the first of %d launches is %d", len(l.list), got)
	}
	l.addLaunch(graphLaunch{Correlation: 1 << 20, Start: 1 << 20, End: 1 << 20})
	l.mark(finishMark{At: 1})
	if got := l.onlyRunning(graphKey{context, 1}, 13); got != 0 || l.list != nil || l.marks != nil || !l.launched {
		t.Errorf("beyond the limit it is launch %d", got)
	}
}
