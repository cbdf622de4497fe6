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

// BaseName is the path of a recording's files without suffix. If output is "" or a folder, the
// files have the program's name and are in the current folder or in that one.
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

// partialName is the path of a log until it is complete. It is beside the final path, so that the
// rename needs no space. It has our PID in it, so that it does not overwrite the log of a recorder
// that was killed.
func partialName(final string) string {
	return tracelog.PartialName(final, strconv.Itoa(os.Getpid()))
}

// checkReplaceable returns an error if no file can be renamed to a path.
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
		return fmt.Errorf("cannot write %s: it is not a regular file", path)
	}
	return nil
}
