package gpumetrics

import "github.com/cudatrace/cudatrace/record/metric"

// known are the metrics that the sampler may send, by name.
var known = map[string]metric.Metric{}

func init() {
	for _, m := range []metric.Metric{
		{Name: metric.NamePower, Label: "Power", Unit: metric.Watt, Kind: metric.Level, Scale: 1000},
		{Name: metric.NameSMClock, Label: "SM clock", Unit: metric.Hertz, Kind: metric.Rate},
		{Name: metric.NameMemoryClock, Label: "Memory clock", Unit: metric.Hertz, Kind: metric.Rate},
		{Name: metric.NameTemperature, Label: "Temperature", Unit: metric.Celsius, Kind: metric.Level},
		{Name: metric.NameMemoryTemperature, Label: "Memory temperature", Unit: metric.Celsius, Kind: metric.Level},
		{Name: metric.NameReasons, Label: "Clock reasons", Unit: metric.BitsOfReason, Kind: metric.Bits},
		{Name: metric.NameUtilization, Label: "Utilization", Unit: metric.Percent, Kind: metric.Percentage},
		{Name: metric.NameMemoryUtilization, Label: "Memory utilization", Unit: metric.Percent, Kind: metric.Percentage},
		{Name: metric.NameMemoryUsed, Label: "Memory used", Unit: metric.Bytes, Kind: metric.Level},
		percentage(metric.NameGPMSMActive, "SM active"),
		percentage(metric.NameGPMOccupancy, "SM occupancy"),
		percentage(metric.NameGPMTensor, "Tensor active"),
		percentage(metric.NameGPMDRAM, "DRAM active"),
		percentage(metric.NameGPMFP64, "FP64 active"),
		percentage(metric.NameGPMFP32, "FP32 active"),
		percentage(metric.NameGPMFP16, "FP16 active"),
		bytesPerSecond(metric.NameGPMPCIeTx, "PCIe to host"),
		bytesPerSecond(metric.NameGPMPCIeRx, "PCIe to GPU"),
		bytesPerSecond(metric.NameGPMNVLinkRx, "NVLink received"),
		bytesPerSecond(metric.NameGPMNVLinkTx, "NVLink sent"),
	} {
		known[m.Name] = m
	}
}

func percentage(name, label string) metric.Metric {
	return metric.Metric{Name: name, Label: label, Unit: metric.Percent, Kind: metric.Percentage}
}

func bytesPerSecond(name, label string) metric.Metric {
	return metric.Metric{Name: name, Label: label, Unit: metric.BytesPerSec, Kind: metric.Rate}
}
