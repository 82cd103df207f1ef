/* Where each value stands in a text, as chains from the first place on. */
#include "kernels.h"

int places_begin(PlacesOf *places, int64_t num_values, int64_t longest) {
    places->row = -1;
    places->first = malloc((size_t)(num_values + 1) * sizeof(int64_t));
    places->count = calloc((size_t)(num_values + 1), sizeof(int64_t));
    places->next = malloc((size_t)(longest + 1) * sizeof(int64_t));
    if (places->first == NULL || places->count == NULL || places->next == NULL) {
        return -1;
    }
    for (int64_t value = 0; value < num_values; value++) {
        places->first[value] = -1;
    }
    return 0;
}

void places_move(PlacesOf *places, Texts texts, int64_t row) {
    if (places->row == row) {
        return;
    }
    if (places->row >= 0) {
        const int64_t *old = row_of(texts, places->row);
        for (int64_t j = 0; j < length_of(texts, places->row); j++) {
            places->first[old[j]] = -1;
            places->count[old[j]] = 0;
        }
    }
    /* From the end, so that chains ascend. */
    const int64_t *values = row_of(texts, row);
    for (int64_t j = length_of(texts, row) - 1; j >= 0; j--) {
        places->next[j] = places->first[values[j]];
        places->first[values[j]] = j;
        places->count[values[j]]++;
    }
    places->row = row;
}

void places_end(PlacesOf *places) {
    free(places->first);
    free(places->count);
    free(places->next);
}
