package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/metadata"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ring"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A logFile is the log of a recording on disk. It has a partial name while it grows, and gets its
// final name when it is finished.
type logFile struct {
	*tracelog.Writer
	ring      *ring.Ring // the newest part of the log is in it; nil where the log is whole
	target    *outfile.Target
	file      *outfile.File // nil with a ring
	reading   *os.File      // the same file, open after the writer has closed it
	trace     *outfile.Target
	path      string // as a person knows the log
	why       string // a log of the newest part is written
	say       func(line string)
	unwritten bool // the last flush failed
}

// createLog creates the log and writes what is known before the program runs.
func createLog(o Options) (*logFile, error) {
	l, err := placeLog(o)
	if err != nil {
		return nil, err
	}
	if err := l.begin(o); err != nil {
		return nil, err
	}
	l.Add(readClocks())
	l.describe(o)
	if err := l.Flush(); err != nil {
		return nil, errors.Join(errno.Writing(l.path, err), l.abandon())
	}
	return l, nil
}

// placeLog finds the place of a log.
func placeLog(o Options) (l *logFile, err error) {
	l = &logFile{path: o.Output + LogSuffix, say: o.Say}
	named := outfile.Options{Named: o.OutputNamed}
	if l.target, err = outfile.At(l.path, named); err != nil {
		return nil, err
	}
	l.trace, err = outfile.At(o.Output+TraceSuffix, named)
	return l, err
}

// rename gives the log another place while it grows.
func (l *logFile) rename(o Options) error {
	to, err := placeLog(o)
	if err != nil {
		return err
	}
	if l.file != nil {
		err = l.file.Move(to.target)
	}
	if err != nil {
		to.target.Close()
		to.trace.Close()
		return err
	}
	l.target.Close()
	l.trace.Close()
	l.path, l.target, l.trace = to.path, to.target, to.trace
	return nil
}

// begin begins to write the log, or the ring that holds the newest part of it.
func (l *logFile) begin(o Options) (err error) {
	if o.Last == 0 {
		return l.open()
	}
	l.ring, err = ring.New(ring.Options{Last: o.Last, Disk: o.DiskLimit, Create: l.segment})
	if err != nil {
		return errno.Writing(l.path, err)
	}
	l.Writer = l.ring.Writer
	return nil
}

// segment makes a file for a part of the log, which nobody else sees.
func (l *logFile) segment() (*os.File, error) {
	f, err := l.target.Create()
	if err != nil {
		return nil, err
	}
	if err := f.Hide(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.File, nil
}

// open makes the file of the log.
func (l *logFile) open() (err error) {
	if l.file, err = l.target.CreatePartial(); err != nil {
		return err
	}
	if err = l.write(); err != nil {
		return errors.Join(errno.Writing(l.path, err), l.file.Discard())
	}
	return nil
}

// write begins to write the file.
func (l *logFile) write() error {
	fd, err := unix.FcntlInt(l.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.reading = os.NewFile(uintptr(fd), l.file.Name())
	l.Writer, err = tracelog.NewFileWriter(l.file.File, tracelog.Options{})
	return err
}

// describe logs which program is recorded, on which host, and with which options.
func (l *logFile) describe(o Options) {
	hostname, _ := os.Hostname() // "" if the host has no name
	args := o.Program
	if !o.NoMetadata {
		args = metadata.WithoutCredentials(strings.Join(append([]string{o.Program}, o.Args...), "\x00"))
	}
	for _, m := range []tracelog.Meta{
		{Key: tracelog.MetaVersion, Value: o.Version},
		{Key: tracelog.MetaProgram, Value: o.Program},
		{Key: tracelog.MetaArgs, Value: args},
		{Key: tracelog.MetaHost, Value: hostname},
		{Key: tracelog.MetaKernel, Value: host.KernelRelease()},
	} {
		l.Add(&m)
	}
	l.describeIfKnown(tracelog.MetaBoot, host.BootID())
	l.describeIfKnown(tracelog.MetaSchedule, o.schedule())
	l.describeIfKnown(tracelog.MetaOptions, o.Words)
	if o.GPU == GPUNone {
		l.Add(&tracelog.Meta{Key: tracelog.MetaWork, Value: tracelog.WorkUnwanted})
	}
	l.describeIfKnown(tracelog.MetaRun, o.Run)
	l.describeIfKnown(tracelog.MetaDriver, metadata.Driver())
	if !o.NoMetadata {
		l.describePlace(o)
	}
}

// describePlace logs the working folder, its commit and the environment: of the program, or of the
// first process that is attached to.
func (l *logFile) describePlace(o Options) {
	environ, cwd := os.Environ(), ""
	if len(o.PIDs) > 0 {
		environ, _ = procfs.Environment(o.PIDs[0]) // nothing where we may not read it
		cwd = procfs.Describe(o.PIDs[0]).Folder
	} else if dir, err := os.Getwd(); err == nil { // else the folder is gone
		cwd = dir
	}
	l.describeIfKnown(tracelog.MetaEnvironment, strings.Join(metadata.Variables(environ), "\x00"))
	l.describeIfKnown(tracelog.MetaCwd, cwd)
	var owner *uint32
	if user := invoker.Find(); user != nil {
		owner = &user.UID
	}
	if len(o.PIDs) > 0 && !procfs.WorksIn(o.PIDs[0], cwd) {
		return
	}
	commit := metadata.Git(cwd, owner)
	l.describeIfKnown(tracelog.MetaRevision, commit.Revision)
	l.describeIfKnown(tracelog.MetaBranch, commit.Branch)
	l.describeIfKnown(tracelog.MetaRemote, commit.Remote)
}

// describeIfKnown logs a fact that may be unknown, "".
func (l *logFile) describeIfKnown(key, value string) {
	if value != "" {
		l.Add(&tracelog.Meta{Key: key, Value: value})
	}
}

func readClocks() *tracelog.Clock {
	c := host.ReadClocks()
	return &tracelog.Clock{
		Monotonic: c.Monotonic, Realtime: c.Realtime, Boottime: c.Boottime, Spread: c.Spread, MaxError: c.MaxError,
	}
}

// save writes the records so far to disk. It reports the first of several failures in a row.
func (l *logFile) save() {
	err := l.Flush()
	if err != nil && !l.unwritten {
		l.say(fmt.Sprintf("%v; recording goes on, and records that cannot be written are counted as lost",
			errno.Writing(l.path, err)))
	}
	l.unwritten = err != nil
}

// finish closes the log and gives it its final name. reasons say why the log is not complete;
// without any it is.
func (l *logFile) finish(reasons []string, res *Result) {
	l.Add(readClocks())
	l.Add(&tracelog.Meta{Key: tracelog.MetaRecorderCPU, Value: strconv.FormatInt(ownCPU().Nanoseconds(), 10)})
	end := endOf(host.Monotonic(), reasons)
	if l.ring == nil {
		l.end(end, res)
		return
	}
	window, err := l.ring.Close(end.Time)
	if err != nil {
		end = endOf(end.Time, append(reasons, errno.Writing(l.path, err).Error()))
	}
	l.join(window, l.why, end, res)
}

// endOf is the end of a log at a time. reasons say why the log is not complete.
func endOf(at uint64, reasons []string) tracelog.End {
	end := tracelog.End{Time: at, Complete: 1}
	if len(reasons) > 0 {
		end.Complete, end.Reason = 0, strings.Join(reasons, "; ")
	}
	return end
}

// join makes the log of a window of the recording.
func (l *logFile) join(window *ring.Snapshot, why string, end tracelog.End, res *Result) {
	defer window.Done()
	l.ring = nil
	if err := l.open(); err != nil {
		l.say(fmt.Sprintf("%v; no log is written (%s)", err, why))
		res.Lost = true
		return
	}
	if err := window.WriteTo(l.Writer, why); err != nil {
		end = endOf(end.Time, append(words(end.Reason), "a part of the log could not be read: "+err.Error()))
	}
	if window.Dropped > 0 {
		end = endOf(end.Time, append(words(end.Reason), figures.Group(window.Dropped)+
			" definitions, open ranges and live allocations of earlier parts were too many to be kept"))
	}
	l.end(end, res)
}

// words is a list of one text, or of none if it is "".
func words(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// end closes the log and gives it its final name.
func (l *logFile) end(end tracelog.End, res *Result) {
	var done outfile.Done
	err := l.Close(end)
	for _, n := range l.Dropped() {
		res.Unwritten += n
	}
	if err != nil {
		err = errno.Writing(l.path, err)
	} else {
		done, err = l.commit()
	}
	switch {
	case err != nil && l.file.IsGone():
		l.say(fmt.Sprintf("the log is lost: its folder %s was removed while recording", filepath.Dir(l.path)))
		res.Lost = true
		return
	case err != nil:
		l.say(fmt.Sprintf("%v; the unfinished log is %s", err, l.file.Name()))
		res.Log, res.Partial = l.file.Name(), true
	default:
		res.Log, res.Replaced = done.Path, done.Replaced
	}
	res.File, res.Trace = l.reading, l.trace
}

// commit gives the log its final name: the one that a person chose, or the first one that is free for
// both the log and its trace.
func (l *logFile) commit() (outfile.Done, error) {
	for n := 1; ; n++ {
		if l.trace.IsTaken(n) {
			continue
		}
		l.trace.From(n)
		done, err := l.file.CommitAs(n)
		if !errors.Is(err, outfile.ErrTaken) {
			return done, err
		}
	}
}

// discard removes the log of a program that did not use CUDA.
func (l *logFile) discard() {
	err := l.abandon()
	if l.file != nil && err != nil && !errors.Is(err, os.ErrNotExist) {
		l.say(fmt.Sprintf("could not remove %s: delete it by hand", l.file.Name()))
	}
}

// abandon closes and removes the log.
func (l *logFile) abandon() error {
	if l.ring == nil {
		return errors.Join(l.Close(tracelog.End{}), l.reading.Close(), l.file.Discard())
	}
	window, err := l.ring.Close(0)
	window.Done()
	return err
}
