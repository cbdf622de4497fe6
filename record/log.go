package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// openLog starts the log with what is known before anything runs.
func (r *recorder) openLog() error {
	final := r.opts.Output + LogSuffix
	for _, path := range []string{final, r.opts.Output + TraceSuffix} {
		if err := checkReplaceable(path); err != nil {
			return err
		}
	}
	r.partial = partialName(final)
	log, err := tracelog.Create(r.partial, tracelog.Options{})
	if err != nil {
		return outputError(final, err)
	}
	r.log = log
	Own(r.partial)
	r.log.Add(ptr(readClocks()))
	host, _ := os.Hostname() // an unnamed host is shown without a name
	cwd, _ := os.Getwd()     // likewise a folder that is gone
	args := append([]string{r.opts.Program}, r.opts.Args...)
	for _, m := range []tracelog.Meta{
		{Key: tracelog.MetaVersion, Value: r.opts.Version},
		{Key: tracelog.MetaProgram, Value: r.opts.Program},
		{Key: tracelog.MetaArgs, Value: strings.Join(args, "\x00")},
		{Key: tracelog.MetaCwd, Value: cwd},
		{Key: tracelog.MetaHost, Value: host},
		{Key: tracelog.MetaKernel, Value: kernelRelease()},
	} {
		m.AddTo(r.log)
	}
	if words := r.opts.schedule(); words != "" {
		r.log.Add(&tracelog.Meta{Key: tracelog.MetaSchedule, Value: words})
	}
	if err := r.log.Flush(); err != nil {
		return errors.Join(outputError(final, err), os.Remove(r.partial))
	}
	return nil
}

// finishLog closes the log and gives it its name.
func (r *recorder) finishLog(res *Result) {
	r.noteCost()
	r.log.Add(ptr(readClocks()))
	r.log.Add(&tracelog.Meta{Key: tracelog.MetaRecorderCPU, Value: strconv.FormatInt(ownCPU().Nanoseconds(), 10)})
	end := tracelog.End{Time: now(), Complete: 1}
	if reasons := r.missing.list(); len(reasons) > 0 {
		end.Complete, end.Reason = 0, strings.Join(reasons, "; ")
	}
	final := r.opts.Output + LogSuffix
	err := r.log.Close(end)
	if err == nil {
		err = os.Rename(r.partial, final)
	}
	if _, gone := os.Stat(r.partial); err != nil && gone != nil {
		r.opts.Say(fmt.Sprintf("the log is lost: its folder %s was removed while recording", filepath.Dir(final)))
		res.Lost = true
		return
	}
	if err != nil {
		r.opts.Say(fmt.Sprintf("%v; the log as far as it got is %s", outputError(final, err), r.partial))
		res.Partial = r.partial
		return
	}
	res.Log = final
}

func ptr[T any](v T) *T { return &v }

// ownCPU is the processor time that we have taken so far, without the program's.
func ownCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
