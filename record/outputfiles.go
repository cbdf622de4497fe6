package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Suffixes of the files that a recording makes.
const (
	LogSuffix   = ".cudatrace"
	TraceSuffix = ".pftrace"
)

// BaseName is the path of a recording's files without suffix. If output is empty or a
// folder, the files are called like the program, in the current folder or in that one.
func BaseName(output, program string) string {
	if output == "" {
		return filepath.Base(program)
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		return filepath.Join(output, filepath.Base(program))
	}
	output = strings.TrimSuffix(output, LogSuffix)
	return strings.TrimSuffix(output, TraceSuffix)
}

// partialName is the path of a log until it is complete: beside the final one, so that
// the rename can't fail for want of space, and with our PID, so that the log that a killed
// recorder left behind stays.
func partialName(final string) string {
	return tracelog.PartialName(final, strconv.Itoa(os.Getpid()))
}

// checkReplaceable refuses a path that no file can be renamed to.
func checkReplaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errno.Writing(path, err)
	case err != nil:
		return nil // nothing is in the way
	case info.IsDir():
		return fmt.Errorf("cannot write %s: a folder of that name is in the way", path)
	case info.Mode()&(os.ModeDevice|os.ModeNamedPipe|os.ModeSocket) != 0:
		return fmt.Errorf("cannot write %s: it is no regular file", path)
	}
	return nil
}
