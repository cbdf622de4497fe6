package door

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// How long threads are kept stopped while others are waited for. On a machine whose processors are busy a round takes long.
const (
	stopMost    = 5 * time.Millisecond
	stopMore    = 50 * time.Microsecond // for each thread: that is how long stopping one takes
	stopLongest = 200 * time.Millisecond
	plainRounds = 10 // without breakpoints
	leastRounds = 30
)

type kind int

const (
	program kind = iota
	cuda         // CUDA's libraries, and ours
	locks        // libc, and others that may hold locks that CUPTI needs
)

// A region is code of one kind.
type region struct {
	procfs.Mapping
	kind kind
}

// A code is the code of a process, ordered by address.
type code []region

func readCode(pid int) (code, error) {
	mapped, err := procfs.Code(pid)
	var c code
	for _, m := range mapped {
		c = append(c, region{m, kindOf(m.Path)})
	}
	return c, err
}

var (
	cudaNames = []string{"libcuda.so", "libcudart", "libcupti", "libnvidia-", "libnvperf", "libcudatrace", "recording-"}
	lockNames = []string{"libc.so", "libc-", "libpthread", "ld-", "libjemalloc", "libtcmalloc", "libmimalloc"}
)

func kindOf(path string) kind {
	name := filepath.Base(path)
	begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
	switch {
	case slices.ContainsFunc(cudaNames, begins):
		return cuda
	case slices.ContainsFunc(lockNames, begins):
		return locks
	}
	return program
}

// find returns what kind of code is at an address; ok is false if there is none.
func (c code) find(address uint64) (k kind, ok bool) {
	r := procfs.Around(c, address)
	if r == nil {
		return 0, false
	}
	return r.kind, true
}

// A view is what the stack of a thread tells.
type view struct {
	inside  bool
	returns uint64 // where the outermost call into CUDA returns to; 0 if unknown
	began   kind   // the code that the thread began in, if libc is left out
}

// look looks at the words of a stack, the innermost first.
func (c code) look(pc uint64, words []uint64) view {
	at, _ := c.find(pc)
	v := view{inside: at == cuda}
	for _, w := range words {
		k, ok := c.find(w)
		switch {
		case !ok:
			continue
		case k == cuda:
			v.inside, v.returns = true, 0
		case v.inside && v.returns == 0 && k == program:
			v.returns = w
		}
		if k != locks {
			v.began = k
		}
	}
	return v
}

// isOwn reports whether a thread that began in CUDA's code or ours is one of CUDA's or ours, by its name. CUPTI's have
// the name of our thread that started it.
func isOwn(name string) bool { return strings.HasPrefix(name, "cuda") }
