package live

import (
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/metric"
)

// Sensors are sampled metrics of a GPU: means over an interval, or the latest value where an interval has none; nil
// where nothing is known.
type Sensors struct {
	Power    *float64 `json:"power_w"`           // W
	SMClock  *float64 `json:"sm_clock_hz"`       // Hz
	SMActive *float64 `json:"sm_active_percent"` // %
}

// A sensor has the samples of a metric that belong to intervals that are not closed.
type sensor struct {
	set    *timeline.MetricSet // the first one with the metric: others measure the same
	list   []sensed
	latest *float64
}

type sensed struct {
	at    uint64
	value float64
}

// maxSensed bounds the samples of a sensor.
const maxSensed = 1 << 16

// sensors has the sensors of a GPU.
type sensors struct{ power, clock, active sensor }

// of returns the sensor of a metric, nil for another one.
func (s *sensors) of(name string) *sensor {
	switch name {
	case metric.NamePower:
		return &s.power
	case metric.NameSMClock, metric.NameSMClockPM:
		return &s.clock
	case metric.NameSMActive, metric.NameGPMSMActive:
		return &s.active
	}
	return nil
}

// samples takes samples of a GPU.
func (s *Sink) samples(e *timeline.Samples) {
	if e.Set.Process != nil {
		return
	}
	of := s.sensed[e.Set.GPU]
	if of == nil {
		if len(s.sensed) >= maxGPUs {
			return
		}
		of = new(sensors)
		s.sensed[e.Set.GPU] = of
	}
	for i, m := range e.Set.Metrics {
		x := of.of(m.Name)
		if x == nil || x.set != nil && x.set != e.Set {
			continue
		}
		x.set = e.Set
		for k := range e.List {
			if v := e.List[k].Values[i]; !math.IsNaN(v) && len(x.list) < maxSensed {
				x.list = append(x.list, sensed{e.List[k].End, v})
			}
		}
	}
}

// until returns the mean of the samples up to a time, and forgets them.
func (x *sensor) until(at uint64) *float64 {
	sum, n := 0.0, 0
	for n < len(x.list) && x.list[n].at <= at {
		sum += x.list[n].value
		n++
	}
	if n > 0 {
		mean := sum / float64(n)
		x.latest, x.list = &mean, x.list[n:]
	}
	return x.latest
}

// close returns the sensors of an interval that ends at a time.
func (s *sensors) close(at uint64) Sensors {
	if s == nil {
		return Sensors{}
	}
	return Sensors{s.power.until(at), s.clock.until(at), s.active.until(at)}
}
