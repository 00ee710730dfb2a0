"""What a run says of itself: its row in `gold._runs`, its metrics, its log."""
