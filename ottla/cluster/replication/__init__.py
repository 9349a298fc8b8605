"""Leaders and followers: ISR, high watermark, fetching, truncation, throttles."""
