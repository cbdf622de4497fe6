package join

import "github.com/cudatrace/cudatrace/convert/timeline"

// groupSlack is the time, in ns, after a launch for which its kernel waits for the end of a group of NCCL's calls. A group
// that lasts longer has kernels without bytes.
const groupSlack = 100e6

// awaitsNCCL reports whether a kernel waits until all launches of its group of NCCL's calls have been counted.
func (p *program) awaitsNCCL(k timeline.WorkKind, ranges *timeline.RangeStack, callEnd uint64) bool {
	g := ranges.Group()
	return g != nil && k == timeline.KernelWork && !g.Settled(p.correlation.calls) && p.correlation.calls < timeline.End(callEnd, groupSlack)
}

// nccl gives a kernel what the calls of NCCL that launched it say. Where records are missing, other calls may have launched it,
// too.
func (p *program) nccl(w *timeline.Work) {
	if g := w.Call.Ranges.Group(); g != nil && !p.lacks && w.Kind == timeline.KernelWork {
		w.NCCL = g.OfKernel(p.correlation.calls)
	}
}

// A lateWork is a piece of work that is shown apart from the order of its stream, when its group of NCCL's calls is known.
type lateWork struct {
	stream *stream
	work   *timeline.Work
}

// showLate shows the work whose group is known by now; with all, all of it.
func (j *workJoiner) showLate(all bool) {
	rest := j.late[:0]
	for _, l := range j.late {
		if w := l.work; !all && l.stream.program.awaitsNCCL(w.Kind, w.Call.Ranges, w.Call.End) {
			rest = append(rest, l)
		} else {
			j.show(l.stream, w)
		}
	}
	clear(j.late[len(rest):])
	j.late = rest
}
