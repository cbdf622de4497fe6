package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Names of checks.
const (
	checkInjection = "injection"
	checkFolder    = "folder"
	checkDisk      = "disk"
)

// lookAtInjection looks for another tool whose library the driver would load.
func (x *examination) lookAtInjection() {
	if other := cupti.Conflict(x.opts.Env); other != "" {
		x.addCheck(Check{Name: checkInjection, Status: Less, Found: other +
			" is set: the driver would load another tool's library (nsys, ncu, compute-sanitizer)",
			Remedy: "record without that tool, or unset the variable"})
		return
	}
	x.addCheck(Check{Name: checkInjection, Status: OK, Found: "no other tool's library is injected"})
}

// lookAtFolder opens the socket that recorded processes would connect to, in the private folder, and
// removes both.
func (x *examination) lookAtFolder() {
	o := cupti.Options{Sink: nowhere{}}
	if user := invoker.Find(); user != nil {
		o.Owner = &cupti.Owner{UID: int(user.UID), GID: int(user.GID)}
	}
	s, err := cupti.Listen(o)
	if err != nil {
		x.addCheck(Check{Name: checkFolder, Status: Less, Found: err.Error()})
		return
	}
	_, library, _ := strings.Cut(s.Environ(nil)[0], "=")
	c := Check{
		Name: checkFolder, Status: OK, Found: filepath.Dir(filepath.Dir(library)) +
			" takes the injected library and its socket",
	}
	if err := s.Close(); err != nil {
		c.Status, c.Found = Note, "the private folder cannot be removed: "+errno.Words(err)
	}
	x.addCheck(c)
}

// nowhere takes the records of a trial, of which there are none.
type nowhere struct{}

func (nowhere) Add(tracelog.Record) {}

// fewBytes is the space that a log of a long recording can need.
const fewBytes = 1 << 30

// lookAtDisk looks at the folder where the log would be written.
func (x *examination) lookAtDisk() {
	c := Check{Name: checkDisk, Status: OK}
	folder := x.opts.Folder
	if path, err := filepath.Abs(folder); err == nil {
		folder = path
	}
	if err := tryToWrite(x.opts.Folder); err != nil {
		c.Status, c.Found, c.Remedy = Nothing, err.Error(), errno.OtherPlace
		x.addCheck(c)
		return
	}
	var s unix.Statfs_t
	if err := unix.Statfs(x.opts.Folder, &s); err != nil {
		c.Status, c.Found = Note, fmt.Sprintf("the space in %s is not known: %s", folder, errno.Words(err))
		x.addCheck(c)
		return
	}
	free := s.Bavail * uint64(s.Bsize)
	c.Found = fmt.Sprintf("%s free in %s", figures.Bytes(free), folder)
	if free < fewBytes {
		c.Status, c.Remedy = Note, "a million launches take about 7 MB"
	}
	x.addCheck(c)
}

// tryToWrite makes a file in a folder as a recording does, and removes it.
func tryToWrite(folder string) error {
	t, err := outfile.At(filepath.Join(folder, fmt.Sprintf("doctor-%d", os.Getpid())), outfile.Options{})
	if err != nil {
		return err
	}
	defer t.Close()
	f, err := t.CreatePartial()
	if err != nil {
		return err
	}
	return f.Discard()
}
