package record

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// leavesOut says whether the recorder itself is a rank that is not recorded, and so is all that the program
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

// chosen decides whether a process is recorded: by its PID, or by its environment.
type chosen struct {
	list ranks.List
	pids []int // those that were attached to, none otherwise

	mu    sync.Mutex
	left  map[uint32]bool // the processes that are not recorded, by PID
	ranks map[uint32]bool // their ranks
}

// Wants says whether a process is recorded.
func (c *chosen) Wants(p cupti.Peer) bool {
	if len(c.pids) > 0 {
		return slices.Contains(c.pids, int(p.PID))
	}
	if c.list.Empty() {
		return true
	}
	environ, err := procfs.Environment(int(p.PID))
	if err != nil {
		return true // we may not read it: rather too much than too little
	}
	rank := ranks.Place(ranks.Variables(environ))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list.Has(rank) {
		delete(c.left, p.PID) // another process had the PID, or this one another program
		return true
	}
	if c.left == nil {
		c.left, c.ranks = map[uint32]bool{}, map[uint32]bool{}
	}
	c.left[p.PID], c.ranks[rank.Number] = true, true
	return false
}

// leaves says whether a process is known not to be recorded.
func (c *chosen) leaves(pid uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left[pid]
}

// others says which ranks used CUDA and are not recorded: "rank 1 is not among --ranks 0"; "" for none.
func (c *chosen) others() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ranks) == 0 {
		return ""
	}
	numbers := slices.Sorted(maps.Keys(c.ranks))
	what := "ranks " + ranks.Words(numbers) + " are"
	if len(numbers) == 1 {
		what = fmt.Sprintf("rank %d is", numbers[0])
	}
	return fmt.Sprintf("%s not among --ranks %s", what, c.list.String())
}
