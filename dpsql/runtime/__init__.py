"""The process: progress, settings that some work needs otherwise, memory."""
