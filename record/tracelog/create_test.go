package tracelog

import (
	"os"

	"golang.org/x/sys/unix"
)

// Create makes the log file at path, which must not exist, and writes its beginning.
func Create(path string, o Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	return NewFileWriter(f, o)
}
