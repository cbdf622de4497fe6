package record

import (
	"fmt"
	"os"
	"strings"

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
	log *tracelog.Writer
	r   *recorder
}

func (s sink) Add(record tracelog.Record) {
	record.AddTo(s.log)
	if c, ok := record.(*tracelog.CUPTI); ok {
		s.r.registered(c)
	}
}

// registered comes when a process has loaded libcupti and registered with it: who
// registers from then on is another client, which a probe is to see.
func (r *recorder) registered(c *tracelog.CUPTI) {
	r.attach(c.PID)
	if c.Status == "on" {
		r.mark(c.PID)
	} else if !r.handedOver(c.PID) {
		r.withoutCUPTI(c)
	}
}

// mark notes that CUPTI records a process.
func (r *recorder) mark(pid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.pid == pid {
			s.recorded = true
		}
	}
}

// handedOver says whether a process's records have gone to another CUPTI client,
// which is said elsewhere.
func (r *recorder) handedOver(pid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.pid == pid && s.recorded {
			return true
		}
	}
	return false
}

// withoutCUPTI says why a process's GPU work is not recorded and what to do.
func (r *recorder) withoutCUPTI(c *tracelog.CUPTI) {
	if r.opts.GPU == GPUNone {
		return // nobody asked for it
	}
	why, _, _ := strings.Cut(c.Status, "; ")
	if about, ok := strings.CutPrefix(why, "it "); ok {
		why = "the libcupti that was found " + about
	}
	text := fmt.Sprintf("GPU work of process %d is not recorded: ", c.PID)
	switch {
	case c.Path == "":
		text += why + ". Looked beside the CUDA libraries that it has mapped, in its Python packages, in CUDA_HOME, /usr/local/cuda*, /opt/cuda* and" +
			" the linker's path. Install the toolkit's cuda-cupti package, or beside Python's packages: pip install nvidia-cuda-cupti"
	default:
		text += fmt.Sprintf("%s: %s", c.Path, why)
	}
	r.miss(c.PID, text)
}
