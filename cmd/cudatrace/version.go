package main

import (
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
)

// release is set by the linker: the version of a release, or that of the commit.
var release string

// version names this build: by release, by version of the module, or by commit.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

func versionCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      "version",
		Usage:     "print the version",
		UsageText: "cudatrace version",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("version", "version takes no arguments")
			}
			con.Print("cudatrace %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
