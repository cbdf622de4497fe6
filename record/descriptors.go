package record

import (
	"os"
	"syscall"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/internal/openfiles"
	"github.com/cudatrace/cudatrace/record/invoker"
)

// Files that must be left to open before a recording of one process, and before probes are opened, at the same time as
// the rest. A recording without probes had 29 open, and has those that tell of unrecorded processes; one with probes
// had 92. A test records with these and a few fewer.
const (
	FilesToRecord = 40
	FilesToProbe  = 76
)

// checkFiles returns an error if this process may not open that many files more.
func checkFiles(n int) error {
	if err := openfiles.Room(n); err != nil {
		return errno.Plain(err)
	}
	return nil
}

// runUnrecorded runs the program in our place: where there is no room to record, there may be none to
// start a child either. It returns only if the program cannot be started.
func runUnrecorded(path string, o Options) error {
	env, err := invoker.Find().Become(os.Environ())
	if err == nil {
		err = syscall.Exec(path, append([]string{o.Program}, o.Args...), env)
	}
	return startError(o.Program, err)
}
