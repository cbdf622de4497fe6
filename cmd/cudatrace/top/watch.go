// Package top is the live view of a log that is being written. Input: a log that grows, keys. Output: a
// screen that is drawn anew every second, lines, or JSON.
//
//	watch.go    follows a log until it ends, or until the person quits
//	view.go     the screen as lines, and what keys do
//	figures.go  a report as a line; ndjson.go: as JSON
//	writer.go   tells whether a log is still being written
//	beside.go   the process that watches beside a recording; command.go: the command
package top

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A form is a form of the output.
type form string

// The forms.
const (
	formScreen form = "screen"
	formLines  form = "lines"  // on standard output
	formSaid   form = "said"   // lines on standard error
	formNDJSON form = "ndjson" // on standard output
)

// A watch shows a log.
type watch struct {
	con      *console.Console
	form     form
	name     string // of the log, or of the program that is recorded
	log      *os.File
	tty      *os.File        // of formScreen
	keys     bool            // read keys from tty
	over     <-chan struct{} // closed when the recording beside is over; nil without one
	discard  bool            // what was read of the log is not needed any more
	interval time.Duration

	screen  *console.Screen
	view    view
	fresh   []*live.Report // that were not shown yet; all of them, once caught is true
	caught  bool           // the end of the log was reached once
	drawn   time.Time      // when a screen was drawn last before
	pressed <-chan string
	freed   int64     // bytes of the log that were freed
	size    int64     // of the log when it grew last
	grown   time.Time // when that was noticed
	warned  bool      // it was said that the log does not grow
}

// errQuit says that the person wants to end.
var errQuit = errors.New("quit")

// An exitError ends the program by a signal.
type exitError struct{ signal syscall.Signal }

func (e exitError) Error() string { return e.signal.String() }

// pollInterval is the time between two looks at the log.
const pollInterval = 250 * time.Millisecond

// run shows the log until its end. The error is errQuit, an exitError, or says why the log cannot be
// followed.
func (w *watch) run() error {
	w.view = view{name: w.name, keys: w.keys}
	growing, err := convert.Follow(w.open, live.New(live.Options{Interval: w.interval, Report: w.report}))
	if err != nil {
		return err
	}
	signals := w.signals()
	if w.form == formScreen {
		if w.screen, err = console.OpenScreen(w.tty, w.keys); err != nil {
			return errors.Join(fmt.Errorf("the terminal cannot be used as a screen: %w", err), growing.Abandon(err))
		}
		defer w.screen.Close()
		if w.keys {
			w.pressed = w.screen.Keys()
		}
	}
	if err = w.follow(growing, signals); err != nil {
		return errors.Join(err, ignoring(growing.Abandon(err)))
	}
	err = growing.Close()
	w.show()
	return err
}

// ignoring drops a failure behind another one.
func ignoring(error) error { return nil }

func (w *watch) open() (*tracelog.Reader, error) {
	info, err := w.log.Stat()
	if err != nil {
		return nil, err
	}
	return tracelog.NewReader(w.log, info.Size(), w.name)
}

// follow follows the log until nothing more comes. What is there then has been read, but for what an
// unfinished block has.
func (w *watch) follow(f *convert.GrowingLog, signals <-chan os.Signal) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	over := false
	for {
		err := f.Read(func(at int64) error { return w.between(at, signals) })
		if err != nil {
			return err
		}
		if f.Ended() || over || w.over == nil && w.abandoned() {
			return nil
		}
		if !w.caught {
			w.caught, w.view.state = true, ""
		}
		w.show()
		select {
		case <-tick.C:
		case sig := <-signals:
			err = w.signal(sig)
		case key, open := <-w.pressed:
			if !open {
				w.pressed = nil // the terminal is gone
				break
			}
			err = w.key(key)
		case <-w.over:
			over = true
		}
		if err != nil {
			return err
		}
	}
}

// between does what cannot wait until the log has been read up to its end. The log has been read up to
// an offset.
func (w *watch) between(at int64, signals <-chan os.Signal) error {
	w.free(at)
	if w.discard && at-w.freed > mostKept {
		w.con.Sayf("recording ends: its temporary log has %s, and the file system cannot free what was read; name a log "+
			"with -o, or another folder with TMPDIR", figures.Bytes(at-w.freed))
		return errQuit
	}
	if !w.caught && w.screen != nil && time.Since(w.drawn) > pollInterval {
		w.drawn = time.Now()
		w.view.state = "reading what is there already: " + figures.Bytes(at)
		w.show()
	}
	select {
	case sig := <-signals:
		return w.signal(sig)
	case key, open := <-w.pressed:
		if open {
			return w.key(key)
		}
		w.pressed = nil
	default:
	}
	return nil
}

// signals are the signals that end or change the view. Beside a recording, Ctrl-C is the program's and
// the recorder's.
func (w *watch) signals() <-chan os.Signal {
	c := make(chan os.Signal, 8)
	list := []os.Signal{unix.SIGTERM, unix.SIGHUP}
	if w.form == formScreen {
		list = append(list, unix.SIGWINCH, unix.SIGTSTP)
	}
	if w.over != nil {
		signal.Ignore(unix.SIGINT, unix.SIGQUIT)
	} else {
		list = append(list, unix.SIGINT, unix.SIGQUIT)
	}
	for _, s := range list {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// signal acts on a signal.
func (w *watch) signal(sig os.Signal) error {
	switch sig {
	case unix.SIGWINCH:
		return w.draw()
	case unix.SIGTSTP:
		if err := w.screen.Close(); err != nil {
			return err
		}
		if err := unix.Kill(unix.Getpid(), unix.SIGSTOP); err != nil {
			return err
		}
		if err := w.screen.Resume(); err != nil {
			return err
		}
		return w.draw()
	}
	n, _ := sig.(syscall.Signal)
	return exitError{n}
}

func (w *watch) key(key string) error {
	if w.view.key(key) {
		return errQuit
	}
	return w.draw()
}

// report shows a report, or keeps it until it is its turn.
func (w *watch) report(r *live.Report) {
	if !w.caught && w.form != formNDJSON {
		w.fresh = w.fresh[:0] // of what was before, the latest is enough
	}
	w.fresh = append(w.fresh, r)
	if w.form == formNDJSON {
		w.show()
	}
}

// show shows the reports that were not shown yet.
func (w *watch) show() {
	for _, r := range w.fresh {
		switch w.form {
		case formLines:
			w.con.Print("%s", plainText(r, w.view.shortNames(r.Kernels)))
		case formSaid:
			w.con.Say(plainText(r, w.view.shortNames(r.Kernels)))
		case formNDJSON:
			_ = writeJSON(w.con.Text(), r) // the console keeps the error
		}
		if !w.view.stopped {
			w.view.report = r
		}
		w.view.latest = r
	}
	w.fresh = w.fresh[:0]
	_ = w.draw() // a terminal that is gone ends the program by a signal
}

func (w *watch) draw() error {
	if w.screen == nil {
		return nil
	}
	return w.screen.Draw(w.view.lines(w.screen.Size()))
}

// staleAfter is the time without growth after which a person is told.
const staleAfter = 5 * time.Second

// abandoned reports whether the log has no end and nobody writes it. Where that cannot be told, a log that
// does not grow is remarked.
func (w *watch) abandoned() bool {
	if info, err := w.log.Stat(); err == nil && info.Size() != w.size {
		w.size, w.grown, w.view.state, w.warned = info.Size(), time.Now(), "", false
		return hasNoWriter(w.log)
	}
	since := time.Since(w.grown)
	if since < staleAfter {
		return hasNoWriter(w.log)
	}
	w.view.state = fmt.Sprintf("%s has not grown for %s: its recorder may be stopped", w.name, since.Round(time.Second))
	if !w.warned && w.form != formScreen {
		w.con.Say(w.view.state)
	}
	w.warned = true
	return hasNoWriter(w.log)
}

const (
	freeStep = 1 << 20 // bytes that are freed at a time, at least
	// mostKept bounds a temporary log whose beginning cannot be freed.
	mostKept = 1 << 30
)

// free frees the beginning of a temporary log, up to an offset. The first block stays, by which a log is known.
func (w *watch) free(until int64) {
	const first = 1 << 12
	from := max(w.freed, first)
	if until &^= first - 1; !w.discard || until-from < freeStep {
		return
	}
	if unix.Fallocate(int(w.log.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, until-from) == nil {
		w.freed = until
	}
}
