package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

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

// outputError says why a file can't be written.
func outputError(path string, err error) error {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot write %s: the folder %s does not exist", path, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot write %s: no permission in folder %s; choose another place with -o", path, dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("cannot write %s: the file system of %s is read-only; choose another place with -o", path, dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("cannot write %s: no space left in %s", path, dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot write %s: %s is not a folder", path, dir)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return fmt.Errorf("cannot write %s: %s", path, errno.Error())
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}

// checkReplaceable refuses a final name that a rename could not take.
func checkReplaceable(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, syscall.ENAMETOOLONG):
		return outputError(path, err)
	case err != nil:
		return nil // nothing is in the way
	case info.IsDir():
		return fmt.Errorf("cannot write %s: a folder of that name is in the way", path)
	case info.Mode()&(os.ModeDevice|os.ModeNamedPipe|os.ModeSocket) != 0:
		return fmt.Errorf("cannot write %s: it is no regular file", path)
	}
	return nil
}
