package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// inclusive are the columns of GPU work of a row with the rows that it calls.
type inclusive struct {
	InclusiveCount uint64   `key:"inclusive_count" rank:"5"`
	Inclusive      uint64   `key:"inclusive_ns" title:"with calls" rank:"2"`
	InclusiveShare *float64 `key:"inclusive_share" title:"share" rank:"4"`
}

// launch counts a piece of work of a length in the row itself, or what another row has.
func (t *totals) launch(n, ns uint64) { t.Count, t.Total = t.Count+n, sketch.Sum(t.Total, ns) }

// launch does so of the row with those that it calls.
func (r *inclusive) launch(n, ns uint64) {
	r.InclusiveCount, r.Inclusive = r.InclusiveCount+n, sketch.Sum(r.Inclusive, ns)
}

// operatorCells is a row of operators.
type operatorCells struct {
	Name      string   `key:"name" title:"operator"` // `aten::addmm`; of a backward operator that of its node, `AddmmBackward0`
	Kind      string   `key:"kind" rank:"6"`         // `operator`, `backward`, `range` of the program's, or `compiled`
	totals             // GPU work that was launched in the operator, and in no operator that it calls
	Share     *float64 `key:"share" title:"share" rank:"2"` // part of the time of the GPU work whose operator is known
	inclusive          // the same, with the operators that it calls; these overlap
	// GPU work of the backward operators that it made
	BackwardCount uint64 `key:"backward_count" rank:"5"`
	Backward      uint64 `key:"backward_ns" title:"backward" rank:"3"` // =

	all    uint64                   // ns of all GPU work of the view
	stacks map[operatorStack]uint64 // ns of what was launched in the operator itself, if stacks are wanted
}

// An operatorStack is work that was launched in an operator within modules, the outermost first.
type operatorStack struct {
	operator      *timeline.Operator
	modules, work string
}

// spend adds the time of work of a stack. What finds no room counts for the operator without modules.
func (r *operatorCells) spend(in operatorStack, ns uint64) {
	if r.stacks == nil {
		r.stacks = make(map[operatorStack]uint64)
	}
	if _, known := r.stacks[in]; !known && len(r.stacks) >= mostStacks {
		in.modules, in.work = "", other
	}
	r.stacks[in] = sketch.Sum(r.stacks[in], ns)
}

func (r *operatorCells) spent() uint64 { return r.Total }

type operatorKey struct{ name, kind string }

func keyOfOperator(o *timeline.Operator) operatorKey {
	switch {
	case o.Scope == timeline.RangeScope:
		return operatorKey{o.Title(), "range"}
	case o.Scope == timeline.CompiledScope:
		return operatorKey{o.Title(), "compiled"}
	case o.IsBackward():
		return operatorKey{o.Title(), "backward"}
	}
	return operatorKey{o.Title(), "operator"}
}

var operatorsReport = declare(grouped[operatorKey, operatorCells]{
	Report: Report{
		Name: "operators", Title: "GPU work by operator of PyTorch",
		needs: gpuWork, whyEmpty: "no GPU work whose operator is known (record --pytorch on)",
	},
	things: [2]string{"launch", "launches"},
	others: operatorKey{other, "operator"},
	ifAny:  true,
	row:    func(k operatorKey) operatorCells { return operatorCells{Name: k.name, Kind: k.kind} },
	from: func(s *section, rows *query.Rows[operatorKey, operatorCells]) {
		modules := make(query.Cache[*timeline.Python, string])
		s.operated.By(func(o *timeline.Operator) func(*piece) {
			own := rows.Of(keyOfOperator(o))
			around, made := operatorRows(rows, o), operatorRows(rows, o.Made())
			return func(w *piece) {
				own.totals.launch(1, w.Dur)
				if s.python.folded != nil {
					at := modules.Of(w.Call.Python, func() string { return modulePath(w.Call.Python) })
					own.spend(operatorStack{o, at, s.Sink.names.Title(w.Work)}, w.Dur)
				}
				for _, r := range around {
					r.inclusive.launch(1, w.Dur)
				}
				for _, r := range made {
					r.BackwardCount, r.Backward = r.BackwardCount+1, sketch.Sum(r.Backward, w.Dur)
				}
			}
		})
	},
	merge: func(r, later *operatorCells) {
		r.totals.launch(later.Count, later.Total)
		r.inclusive.launch(later.InclusiveCount, later.Inclusive)
		r.BackwardCount, r.Backward = r.BackwardCount+later.BackwardCount, sketch.Sum(r.Backward, later.Backward)
		for in, ns := range later.stacks {
			r.spend(in, ns)
		}
	},
	stacks: foldOperators,
	fill: func(v *view, r *operatorCells, total uint64) {
		r.Share, r.InclusiveShare, r.all = table.ShareOf(r.Total, total), table.ShareOf(r.Inclusive, total), v.onGPU
	},
	finish: func(t *table.Table, rows []*operatorCells) {
		known, all := uint64(0), uint64(0)
		for _, r := range rows {
			known, all = sketch.Sum(known, r.Total), r.all
		}
		if len(rows) > 0 && known < all {
			t.Notes = append(t.Notes, fmt.Sprintf("the operator is known of %s of the time of GPU work; the rest was "+
				"launched in none, or while auto did not record them (record --pytorch on records all)",
				table.Words(float64(known)/float64(all), table.Share)))
		}
	},
})

// moduleCells is a row of modules.
type moduleCells struct {
	// module: the function `forward` of a class, `LlamaMLP.forward`, before CPython 3.11 `model.py(7): forward`;
	// `(no module)` for lines outside of any
	Name      string   `key:"name" title:"module"`
	File      string   `key:"file" title:"file" rank:"6"` // where that function is
	totals             // GPU work that was launched in the module, and in no module that it calls
	Share     *float64 `key:"share" title:"share" rank:"2"` // part of the time of the GPU work with Python lines
	inclusive          // the same, with the modules that it calls; these overlap
	// the part of `inclusive_ns` that backward operators launched, which the module's forward ones made
	Backward uint64 `key:"backward_ns" title:"backward" rank:"3"`
}

func (r *moduleCells) spent() uint64 { return r.Total }

type moduleKey struct{ name, file string }

// The name of a module's function, which is qualified from CPython 3.11 on.
const bareForward, forwardFunction = "forward", ".forward"

var noModule = moduleKey{name: "(no module)"}

// modulesOf are the modules of a stack, the innermost first, each once.
func modulesOf(p *timeline.Python) (list []moduleKey) {
	for f := range p.Frames() {
		k := moduleKey{f.Function, f.ShortFile()}
		switch {
		case f.Function == bareForward:
			k.name = f.Title()
		case !strings.HasSuffix(f.Function, forwardFunction):
			continue
		}
		if !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	return list
}

var modulesReport = declare(grouped[moduleKey, moduleCells]{
	Report: Report{
		Name: "modules", Title: "GPU work by module of PyTorch: functions forward above the launch", Detail: true,
		needs: framesRecorded, whyEmpty: "no GPU work with a function forward above its launch",
	},
	things: [2]string{"launch", "launches"},
	others: moduleKey{name: other},
	row:    func(k moduleKey) moduleCells { return moduleCells{Name: k.name, File: k.file} },
	from: func(s *section, rows *query.Rows[moduleKey, moduleCells]) {
		s.lined.By(func(at *timeline.Python) func(*piece) {
			var around []*moduleCells
			for _, k := range modulesOf(at) {
				around = append(around, rows.Of(k))
			}
			if len(around) == 0 {
				around = append(around, rows.Of(noModule))
			}
			return func(w *piece) {
				back := w.Call.Operator.Made() != nil
				around[0].totals.launch(1, w.Dur)
				for _, r := range around {
					r.inclusive.launch(1, w.Dur)
					if back {
						r.Backward = sketch.Sum(r.Backward, w.Dur)
					}
				}
			}
		})
	},
	merge: func(r, later *moduleCells) {
		r.totals.launch(later.Count, later.Total)
		r.inclusive.launch(later.InclusiveCount, later.Inclusive)
		r.Backward = sketch.Sum(r.Backward, later.Backward)
	},
	fill: func(_ *view, r *moduleCells, total uint64) {
		r.Share, r.InclusiveShare = table.ShareOf(r.Total, total), table.ShareOf(r.Inclusive, total)
	},
})

// modulePath is the modules of a stack, the outermost first, each once.
func modulePath(p *timeline.Python) string {
	var names []string
	for _, k := range modulesOf(p) {
		names = append(names, k.name)
	}
	slices.Reverse(names)
	return strings.Join(names, ";")
}

// foldOperators are modules, operators and work, the outermost first, with the time of the work. Those of the backward
// pass are within "backward".
func foldOperators(rows []*operatorCells) *table.Folded {
	f := new(table.Folded)
	for _, r := range rows {
		for in, ns := range r.stacks {
			frames, backward := []string{in.work}, false
			for at := range in.operator.Operators() {
				frames, backward = append(frames, at.Title()), backward || at.IsBackward()
			}
			if in.modules != "" {
				modules := strings.Split(in.modules, ";")
				slices.Reverse(modules)
				frames = append(frames, modules...)
			}
			if backward {
				frames = append(frames, "backward")
			}
			slices.Reverse(frames)
			f.Add(frames, ns)
		}
	}
	return f
}

// operatorRows are the rows of an operator, nil for none, and of those around it, each once.
func operatorRows(rows *query.Rows[operatorKey, operatorCells], o *timeline.Operator) (list []*operatorCells) {
	for f := range o.Operators() {
		if r := rows.Of(keyOfOperator(f)); !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}
