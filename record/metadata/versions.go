package metadata

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// Driver returns the release of NVIDIA's kernel driver, "580.159.04"; "" where the driver's part of
// /proc is missing, as in some containers.
func Driver() string {
	text, err := procfs.Read("/proc/driver/nvidia/version", procfs.MaxFacts)
	if err != nil {
		return ""
	}
	return DriverRelease(string(text))
}

var release = regexp.MustCompile(`\s(\d{3,4}\.\d+(\.\d+)?)\s`)

// DriverRelease finds the release in the driver's description of itself; "" where it is not there.
func DriverRelease(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if m := release.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// Version returns the version in the file name of a mapped library, as far as the name tells it: "13.0.96"
// or "13"; "" for a library that is not mapped, and for one without a version.
func Version(mapped []string, library string) string {
	for _, path := range mapped {
		if version, ok := strings.CutPrefix(filepath.Base(path), library+".so."); ok {
			return version
		}
	}
	return ""
}
