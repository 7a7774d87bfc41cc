"""Topic-connected overlays (SpiderCast): links kept, chosen, bounded and measured."""
