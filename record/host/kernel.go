package host

import "golang.org/x/sys/unix"

// KernelRelease is the release of the running kernel, "6.12.0-1-amd64"; "" if it is not known.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
