package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// stdio is the name of standard input among logs, and of standard output behind -o.
const stdio = "-"

// oneLog is the command's only argument.
func oneLog(c *cli.Context) (convert.Log, error) {
	switch c.NArg() {
	case 0:
		return convert.Log{}, usagef(c.Command.Name, "%s: no log given", c.Command.Name)
	case 1:
		return namedLog(c.Command.Name, c.Args().First())
	default:
		return convert.Log{}, usagef(c.Command.Name, "%s: takes one log", c.Command.Name)
	}
}

// namedLogs are the logs that arguments name.
func namedLogs(command string, names []string) (logs []convert.Log, err error) {
	for _, name := range names {
		l, err := namedLog(command, name)
		if err != nil {
			return nil, err
		}
		logs = append(logs, l)
	}
	return logs, nil
}

// logsIn returns the names of logs, with those of the logs in a folder in place of its own.
func logsIn(con *console.Console, command string, names []string) (logs []string, err error) {
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			logs = append(logs, name)
			continue
		}
		found, err := filesOf(con, command, []string{name})
		if err != nil {
			return nil, err
		}
		logs = append(logs, found...)
	}
	return logs, nil
}

// logArgs are the arguments by which a command line names logs: the folder of many, if it has no others.
func logArgs(logs []convert.Log) (names []string) {
	const many = 4
	var paths []string
	for _, l := range logs {
		if l.Name == inputName {
			l.Name = stdio
		}
		names, paths = append(names, l.Name), append(paths, filepath.Clean(l.Name))
	}
	if len(logs) <= many {
		return names
	}
	folder := filepath.Dir(names[0])
	all, _, err := filesIn(folder, []string{record.LogSuffix})
	if err != nil || !slices.Equal(all, slices.Sorted(slices.Values(paths))) {
		return names
	}
	return []string{folder}
}

// namedLog is the log that an argument names.
func namedLog(command, name string) (convert.Log, error) {
	if name != stdio {
		return convert.Log{Name: name, Open: func() (*tracelog.Reader, error) {
			r, err := tracelog.Open(name)
			return r, notLog(name, err)
		}}, nil
	}
	if console.IsTerminal(standardInput) {
		return convert.Log{}, usagef(command, "%s: standard input is a terminal: name a log, or pipe one", command)
	}
	return inputLog(standardInput)
}

// notLog adds to the error of a log that a person named what they may have meant.
func notLog(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w%s", err, cmp.Or(offer(name, record.LogSuffix), unfinished(name),
			unfinished(name+record.LogSuffix)))
	case errors.Is(err, tracelog.ErrNotLog) && strings.HasSuffix(name, record.TraceSuffix):
		log, see := strings.TrimSuffix(name, record.TraceSuffix)+record.LogSuffix, figures.Shell("cudatrace", openName, name)
		return fmt.Errorf("%w but a trace, and its log is %s; to see it: %s", err, log, see)
	}
	return err
}

// offer asks for a file of a name with a suffix, "" where there is none.
func offer(name, suffix string) string {
	if info, err := os.Stat(name + suffix); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return "; did you mean " + name + suffix + "?"
}

// unfinished names the file that the recorder of a log left, or still writes, and what to do with it; "" where there is
// none.
func unfinished(log string) string {
	if !strings.HasSuffix(log, record.LogSuffix) {
		return ""
	}
	folder, begin := filepath.Split(tracelog.PartialName(log, ""))
	files, _ := os.ReadDir(cmp.Or(folder, ".")) // sorted by name
	for _, f := range files {
		if strings.HasPrefix(f.Name(), begin) && f.Type().IsRegular() {
			name := folder + f.Name()
			return fmt.Sprintf("; its recorder was killed, or still runs, and left %s: name that file, or make a log of it: %s",
				name, figures.Shell("cudatrace", repairName, name, "-o", log))
		}
	}
	return ""
}

// inputName is what messages call the log on standard input.
const inputName = "standard input"

// standardInput is where a log named - comes from.
var standardInput = os.Stdin

// inputLog is the log on an open file.
func inputLog(f *os.File) (convert.Log, error) {
	f, size, err := seekable(f, inputName)
	return openLog(f, size, inputName), err
}

// openLog is the log that is the first size bytes of an open file.
func openLog(f *os.File, size int64, name string) convert.Log {
	return convert.Log{Name: name, Open: func() (*tracelog.Reader, error) { return tracelog.NewReader(f, size, name) }}
}

// seekable is a file that can be read at any place, with its size. A log is read several times and from its end, so
// that a pipe is copied to a file without a name.
func seekable(f *os.File, name string) (*os.File, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("%s cannot be read: %s", name, errno.Words(err))
	}
	if info.IsDir() {
		return nil, 0, fmt.Errorf("%s is not a cudatrace log: it is a folder", name)
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at != 0 || !info.Mode().IsRegular() {
		if f, err = kept(f); err != nil {
			return nil, 0, fmt.Errorf("%s %w", name, err)
		}
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, 0, fmt.Errorf("%s cannot be read: %s", name, errno.Words(err))
	}
	return f, size, nil
}

// kept is a file with the rest of another one.
func kept(from *os.File) (*os.File, error) {
	to, err := nameless()
	if err == nil {
		_, err = io.Copy(to, reading{from})
	}
	var failed *readError
	switch {
	case errors.As(err, &failed):
		return nil, fmt.Errorf("cannot be read: %s", errno.Words(failed.err))
	case err != nil:
		return nil, fmt.Errorf("cannot be kept in %s: %s; set TMPDIR to a folder with room, or save the log to a file",
			os.TempDir(), errno.Words(err))
	}
	return to, nil
}

// nameless makes a temporary file that lives as long as it is open.
func nameless() (f *os.File, err error) {
	err = invoker.Find().Do(func() (err error) {
		if f, err = os.CreateTemp("", "cudatrace-"); err == nil {
			err = os.Remove(f.Name())
		}
		return err
	})
	return f, err
}

// A reading tells errors of reading from those of writing.
type reading struct{ r io.Reader }

type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (r reading) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		err = &readError{err}
	}
	return n, err
}

// isInput reports whether a path is that of the file on standard input.
func isInput(path string) bool { return output.SameFile("/dev/stdin", path) }
