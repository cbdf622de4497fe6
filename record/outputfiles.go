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

// BaseName is the path without suffix of a recording's files: what -o names, or
// the program's base name in the current folder, or in the folder that -o names.
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

// partialName is where a log grows until it is complete. It lies beside its
// final name, so that the rename can't fail for want of space, and carries our
// PID, so that what an earlier recorder left behind when it was killed stays.
func partialName(final string) string {
	return tracelog.PartialName(final, strconv.Itoa(os.Getpid()))
}

// checkReplaceable refuses a final name that a rename could not take.
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
