package record

import (
	"os"

	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// openServer opens the socket for the injected library. Without it no process is
// found.
func (r *recorder) openServer() {
	if other := cupti.Conflict(os.Environ()); other != "" {
		r.miss(0, other+" is set: another tool (nsys, ncu, compute-sanitizer) has this place, nothing is recorded; leave one of them out or unset the variable")
		return
	}
	o := cupti.Options{Sink: sink{r.log, r}}
	if r.invoker != nil {
		o.Owner = &cupti.Owner{UID: int(r.invoker.uid), GID: int(r.invoker.gid)}
	}
	s, err := cupti.Listen(o)
	if err != nil {
		r.miss(0, "nothing is recorded: "+err.Error())
		return
	}
	r.server = s
	go s.Serve(r)
}

// sink takes the injected libraries' records to the log.
type sink struct {
	*tracelog.Writer
	r *recorder
}

// CUPTI comes when a process has loaded libcupti and registered with it: who
// registers from then on is another client, which a probe is to see.
func (s sink) CUPTI(c *tracelog.CUPTI) {
	s.Writer.CUPTI(c)
	s.r.attach(c.PID)
}
