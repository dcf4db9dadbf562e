//! Always-on telemetry for a hot path: histograms, hops that are USDT probes, reports.
