package sampled

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// A GPU has the main figures of a GPU. Its JSON form is an interface: docs/info.md documents it.
type GPU struct {
	Index   uint32    `json:"gpu"`
	Figures []Figure  `json:"metrics"`
	Known   uint64    `json:"reasons_ns"` // time for which reasons are known
	Lowered []Lowered `json:"lowered"`    // reasons that lowered the clocks, the longest first
	Others  []Other   `json:"others"`     // processes outside the recording that used the GPU
}

// A Figure describes the values of a metric of one source.
type Figure struct {
	Label    string      `json:"name"`
	Metric   string      `json:"metric"` // name that the source gives it
	Source   string      `json:"source"`
	Unit     metric.Unit `json:"-"`
	UnitName string      `json:"unit"`
	Time     uint64      `json:"time_ns"` // for which there are values
	Mean     float64     `json:"mean"`
	Median   float64     `json:"median"`
	P95      float64     `json:"p95"`
	Max      float64     `json:"max"`
}

// A Lowered is a reason that lowered the clocks, and for how long.
type Lowered struct {
	Reason string `json:"reason"`
	Time   uint64 `json:"total_ns"`
}

// An Other is a process outside the recording.
type Other struct {
	PID  uint32 `json:"pid"`  // 0 when not known
	Name string `json:"name"` // "" when not known
}

// Summarize makes the figures of GPUs from those of their sets, which are in the order of GPUs. A GPU without
// values has none.
func Summarize(sets []*Set, users []timeline.GPUUser) []GPU {
	all := []GPU{}
	for _, s := range sets {
		figures := s.figures()
		if len(figures) == 0 && s.Known == 0 {
			continue
		}
		if len(all) == 0 || all[len(all)-1].Index != s.GPU {
			all = append(all, GPU{Index: s.GPU, Figures: []Figure{}, Lowered: []Lowered{}, Others: othersOf(s.GPU, users)})
		}
		g := &all[len(all)-1]
		g.Figures = append(g.Figures, figures...)
		g.Known += s.Known
		for _, r := range s.Lowered() {
			g.Lowered = append(g.Lowered, Lowered{r.String(), s.Reasons[r]})
		}
		slices.SortStableFunc(g.Lowered, func(a, b Lowered) int { return cmp.Compare(b.Time, a.Time) })
	}
	return all
}

func (s *Set) figures() (list []Figure) {
	for i := range s.Rows {
		r, m := &s.Rows[i], &s.Metrics[i]
		if r.Time > 0 {
			list = append(list, Figure{
				cmp.Or(m.Label, m.Name), m.Name, s.Title(), m.Unit, m.Unit.String(), r.Time, r.Mean(), r.Percentile(50),
				r.Percentile(95), r.Max,
			})
		}
	}
	return list
}

func othersOf(gpu uint32, users []timeline.GPUUser) []Other {
	list := []Other{}
	for _, u := range users {
		if u.GPU == gpu {
			list = append(list, Other{u.PID, u.Name})
		}
	}
	return list
}
