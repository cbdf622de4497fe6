package chromesink

import "github.com/cudatrace/cudatrace/convert/internal/steppaths"

// writePaths writes the critical path of the steps of each process, as a thread beside the main thread.
func (s *Sink) writePaths() {
	s.paths.Each(func(p *steppaths.Path) {
		if len(p.Spans) == 0 {
			return
		}
		f := s.file(p.Process)
		if f == nil {
			return
		}
		r := &row{file: f, pid: p.Process.PID, base: p.Process.PID, name: steppaths.Track, beside: true}
		for i := range p.Spans {
			x := &p.Spans[i]
			o := f.slice(x.Category, x.Name, r.pid, r.first().tid, x.Start, x.End)
			details(&o, x.Facts)
			if x.Step != nil {
				o.int("step", x.Step.Number)
			}
			f.endArgs(&o)
		}
		s.shown += uint64(len(p.Spans))
	})
}
