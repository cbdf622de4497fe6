package figures

import (
	"math"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Group(0), "0"}, {Group(999), "999"}, {Group(1000), "1,000"}, {Group(uint64(12345678)), "12,345,678"},
		{Count(0, "copy", "copies"), "0 copies"}, {Count(1, "copy", "copies"), "1 copy"}, {Count(4321, "copy", "copies"), "4,321 copies"},
		{Duration(0), "0.0 µs"}, {Duration(49_000), "49.0 µs"}, {Duration(100_000), "0.1 ms"}, {Duration(577_300_000), "577.3 ms"},
		{Duration(1_250_000_000), "1.2 s"}, {Duration(uint64(90 * time.Second)), "1m30s"},
		{Duration(math.MaxUint64), "2562047h0m0s"}, {DurationBeside(5, math.MaxUint64), "0.000 s"},
		{DurationBeside(1_250_000, 3_000_000_000), "0.001 s"}, {DurationBeside(1_250, 1_000_000), "0.001 ms"},
		{DurationBeside(2_500_000, 577_300_000), "2.5 ms"},
		{Bytes(0), "0 B"}, {Bytes(1023), "1023 B"}, {Bytes(12 << 10), "12.0 KiB"}, {Bytes(int64(3) << 19), "1.5 MiB"}, {Bytes(uint64(5) << 29), "2.5 GiB"},
		{Bytes(uint64(1) << 40), "1.0 TiB"}, {Bytes(uint64(1) << 50), "1.0 PiB"}, {Bytes(uint64(1<<64 - 1)), "16.0 EiB"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
