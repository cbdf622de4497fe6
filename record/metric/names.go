package metric

// Names of metrics that readers of a log know: what they compute with, whatever the label. A source
// may sample others, too.
const (
	NamePower             = "power"              // NVML: W
	NameSMClock           = "sm_clock"           // NVML: Hz
	NameMemoryClock       = "memory_clock"       // NVML: Hz
	NameTemperature       = "temperature"        // NVML: °C
	NameMemoryTemperature = "memory_temperature" // NVML: °C
	NameReasons           = "clock_reasons"      // NVML: Reason
	NameMemoryUsed        = "memory_used"        // NVML: bytes
	NameUtilization       = "utilization"        // NVML: % of time with a kernel
	NameMemoryUtilization = "memory_utilization" // NVML: % of time with memory traffic

	NameGPMSMActive  = "gpm_sm_active"     // %
	NameGPMOccupancy = "gpm_sm_occupancy"  // %
	NameGPMTensor    = "gpm_tensor_active" // %
	NameGPMDRAM      = "gpm_dram_active"   // %
	NameGPMPCIeTx    = "gpm_pcie_tx"       // bytes/s, GPU to host
	NameGPMPCIeRx    = "gpm_pcie_rx"       // bytes/s, host to GPU
	NameGPMNVLinkRx  = "gpm_nvlink_rx"     // bytes/s
	NameGPMNVLinkTx  = "gpm_nvlink_tx"     // bytes/s
	NameGPMFP64      = "gpm_fp64_active"   // %
	NameGPMFP32      = "gpm_fp32_active"   // %
	NameGPMFP16      = "gpm_fp16_active"   // %
	NameCPUUse       = "cpu"               // host: % of one core
	NameRunQueueWait = "run_queue_wait"    // host: % of time
	NameMinorFaults  = "minor_faults"      // host: a second
	NameMajorFaults  = "major_faults"      // host: a second
)

// Names of metrics of PM sampling.
const (
	NameSMClockPM     = "gpc__cycles_elapsed.avg.per_second"                           // Hz
	NameGPUActive     = "gr__cycles_active.sum.pct_of_peak_sustained_elapsed"          // %
	NameComputeActive = "gr__compute_cycles_active.avg.pct_of_peak_sustained_elapsed"  // % of time with a kernel
	NameSMActive      = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"          // %
	NameSMIssue       = "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed" // %
	NameTensor        = "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed"
	NameOccupancy     = "sm__warps_active_realtime.avg.pct_of_peak_sustained_elapsed" // %
	NameDRAMRead      = "dram__bytes_read.sum.per_second"                             // bytes/s
	NameDRAMWrite     = "dram__bytes_write.sum.per_second"                            // bytes/s
	NameL2            = "LTS.TriageCompute.lts__t_sector_throughput.avg.pct_of_peak_sustained_elapsed"
	NamePCIeRead      = "pcie__read_bytes.sum.per_second"       // bytes/s, host to GPU
	NamePCIeWrite     = "pcie__write_bytes.sum.per_second"      // bytes/s, GPU to host
	NameNVLinkRx      = "nvlrx__bytes_data_user.sum.per_second" // bytes/s
	NameNVLinkTx      = "nvltx__bytes_data_user.sum.per_second" // bytes/s
)
