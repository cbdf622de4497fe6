package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A logFile is the log of a recording on disk. It has a partial name while it grows, and gets its
// final name when it is finished.
type logFile struct {
	*tracelog.Writer
	final, partial string // paths
	say            func(line string)
	unwritten      bool // the last flush failed
}

// createLog creates the log and writes what is known before the program runs.
func createLog(o Options) (*logFile, error) {
	l := &logFile{final: o.Output + LogSuffix, say: o.Say}
	for _, path := range []string{l.final, o.Output + TraceSuffix} {
		if err := checkReplaceable(path); err != nil {
			return nil, err
		}
	}
	l.partial = partialName(l.final)
	var err error
	if l.Writer, err = tracelog.Create(l.partial, tracelog.Options{}); err != nil {
		return nil, errno.Writing(l.final, err)
	}
	Own(l.partial)
	l.Add(readClocks())
	l.describe(o)
	if err := l.Flush(); err != nil {
		return nil, errors.Join(errno.Writing(l.final, err), os.Remove(l.partial))
	}
	return l, nil
}

// describe logs which program is recorded, on which host, and with which options.
func (l *logFile) describe(o Options) {
	hostname, _ := os.Hostname() // "" if the host has no name
	cwd, _ := os.Getwd()         // "" if the folder is gone
	args := append([]string{o.Program}, o.Args...)
	for _, m := range []tracelog.Meta{
		{Key: tracelog.MetaVersion, Value: o.Version},
		{Key: tracelog.MetaProgram, Value: o.Program},
		{Key: tracelog.MetaArgs, Value: strings.Join(args, "\x00")},
		{Key: tracelog.MetaCwd, Value: cwd},
		{Key: tracelog.MetaHost, Value: hostname},
		{Key: tracelog.MetaKernel, Value: host.KernelRelease()},
	} {
		l.Add(&m)
	}
	if words := o.schedule(); words != "" {
		l.Add(&tracelog.Meta{Key: tracelog.MetaSchedule, Value: words})
	}
}

func readClocks() *tracelog.Clock {
	c := host.ReadClocks()
	return &tracelog.Clock{Monotonic: c.Monotonic, Realtime: c.Realtime, Boottime: c.Boottime}
}

// save writes the records so far to disk. It reports the first of several failures in a row.
func (l *logFile) save() {
	err := l.Flush()
	if err != nil && !l.unwritten {
		l.say(fmt.Sprintf("%v; recording goes on, and records that cannot be written are counted as lost", errno.Writing(l.final, err)))
	}
	l.unwritten = err != nil
}

// finish closes the log and gives it its final name. reasons say why the log is not complete;
// without any it is.
func (l *logFile) finish(reasons []string, res *Result) {
	l.Add(readClocks())
	l.Add(&tracelog.Meta{Key: tracelog.MetaRecorderCPU, Value: strconv.FormatInt(ownCPU().Nanoseconds(), 10)})
	end := tracelog.End{Time: host.Monotonic(), Complete: 1}
	if len(reasons) > 0 {
		end.Complete, end.Reason = 0, strings.Join(reasons, "; ")
	}
	err := l.Close(end)
	if err == nil {
		err = os.Rename(l.partial, l.final)
	}
	if _, gone := os.Stat(l.partial); err != nil && gone != nil {
		l.say(fmt.Sprintf("the log is lost: its folder %s was removed while recording", filepath.Dir(l.final)))
		res.Lost = true
		return
	}
	if err != nil {
		l.say(fmt.Sprintf("%v; the unfinished log is %s", errno.Writing(l.final, err), l.partial))
		res.Partial = l.partial
		return
	}
	res.Log = l.final
}

// discard removes the log of a program that did not use CUDA.
func (l *logFile) discard() {
	err := errors.Join(l.Close(tracelog.End{}), os.Remove(l.partial))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.say(fmt.Sprintf("could not remove %s: delete it by hand", l.partial))
	}
}
