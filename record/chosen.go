package record

import (
	"fmt"
	"os"
	"slices"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// leavesOut reports whether the recorder itself is a rank that is not recorded, and so is all that the program
// starts. What a launcher starts has ranks of its own.
func (o *Options) leavesOut() bool {
	own := ranks.Place(ranks.Variables(os.Environ()))
	if o.Ranks.Has(own) || ranks.MayLaunch(o.Program, o.Args) {
		return false
	}
	if doubt := o.Ranks.Doubt(own); doubt != "" && own.Number == 0 { // one of the ranks says it
		o.Say(fmt.Sprintf("--ranks %s: %s; nothing is recorded", o.Ranks.String(), doubt))
	}
	return true
}

// Wants reports whether a process is recorded: by its PID, or by its environment.
func (s *session) Wants(p cupti.Peer) bool {
	if len(s.opts.PIDs) > 0 {
		return slices.Contains(s.opts.PIDs, int(p.PID))
	}
	if s.opts.Ranks.Empty() {
		return true
	}
	environ, err := procfs.Environment(int(p.PID))
	if err != nil {
		return true // we may not read it: rather too much than too little
	}
	rank := ranks.Place(ranks.Variables(environ))
	if s.opts.Ranks.Has(rank) {
		return true
	}
	start, _ := procfs.Started(int(p.PID)) // 0 if it has just ended
	s.post(leaves{p.PID, start, host.Monotonic(), rank})
	return false
}
