package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// KernelRelease is the release of the running kernel, "6.12.0-1-amd64"; "" if it is not known.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// KernelVersion is the version of the running kernel as the kernel's KERNEL_VERSION makes it of
// three numbers; 0 if it is not known.
func KernelVersion() uint32 { return versionOf(KernelRelease()) }

func versionOf(release string) uint32 {
	var major, minor, patch uint32
	if n, _ := fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch); n < 2 || major > 255 || minor > 255 {
		return 0
	}
	return major<<16 | minor<<8 | min(patch, 255)
}
